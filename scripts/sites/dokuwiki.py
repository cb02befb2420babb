"""DokuWiki from Debian's package: its installation, a page, a picture, and addresses by PATH_INFO."""

import shutil

from stand import ask, configuration, expect

SOURCE = "/usr/share/dokuwiki"
NEEDS = [SOURCE, "/var/lib/dokuwiki/data"]
PASSWORD = "a long pass phrase"


def run(stand):
    root = stand.folder / "dokuwiki"
    shutil.copytree(SOURCE, root)
    # Debian keeps settings and pages elsewhere; here they stand as DokuWiki means it.
    (root / "inc/preload.php").unlink()
    shutil.copytree("/etc/dokuwiki", root / "conf", symlinks=True)
    for name in ("local.php", "users.auth.php", "acl.auth.php"):
        (root / "conf" / name).unlink(missing_ok=True)
    shutil.copytree("/var/lib/dokuwiki/data", root / "data")
    # Debian's settings lead to that directory, which is not this run's.
    settings = root / "conf/dokuwiki.php"
    settings.write_text(settings.read_text(encoding="utf-8").replace("/var/lib/dokuwiki/data", "./data"), encoding="utf-8")
    stand.owned(root)
    stand.serve(configuration("DokuWiki", **{"/srv/www/dokuwiki": root, "/run/php/php8.2-fpm.sock": stand.php()}))
    page = stand.page()
    page.open(stand.address + "/install.php")
    page.fill(**{"d[title]": "A wiki behind weir", "d[superuser]": "admin", "d[fullname]": "An operator",
                 "d[email]": "a@example.org", "d[password]": PASSWORD, "d[confirm]": PASSWORD})
    page.value("document.querySelector('[name=\"d[license]\"]').click()")
    page.press("[name=submit]")
    page.has("successfully")
    (root / "install.php").unlink()
    # Addresses such as /doku.php/wiki:syntax, which need PATH_INFO.
    with open(root / "conf/local.php", "a", encoding="utf-8") as settings:
        settings.write("\n$conf['userewrite'] = 2;\n$conf['updatecheck'] = 0;\n")
    page.open(stand.address + "/doku.php/start?do=login")
    page.fill(u="admin", p=PASSWORD)
    page.press("#dw__login [type=submit]")
    page.has("An operator")
    page.open(stand.address + "/doku.php/hello:world?do=edit")
    page.fill(wikitext="====== Written behind weir ======\n\nA page with ümlauts and {{:a.png|}}.")
    page.press("#edbtn__save")
    page.has("A page with ümlauts")
    expect("/doku.php/hello:world" in page.value("location.href"), page.where())
    stand.picture(page, "page")
    picture(stand, page)
    page.open(stand.address + "/doku.php/wiki:syntax")
    page.has("Formatting Syntax")
    stand.picture(page, "syntax")
    # The installation tries itself whether its data can be read from outside.
    # The page names its picture before that is there.
    page.no_failures(["/data/dont-panic", "/lib/exe/fetch.php/a.png: 404"])
    around(stand)


def picture(stand, page):
    """A picture by the manager of media, and then in the page."""
    file = stand.folder / "a.png"
    page.picture(file)
    page.open(stand.address + "/lib/exe/mediamanager.php?ns=")
    page.until("!!document.querySelector('#mediamanager__uploader, #upload__file, .qq-upload-button')", "the form for files")
    page.value(
        "(async () => { const form = new FormData();"
        " const bytes = await (await fetch('/lib/images/notify.png')).blob();"
        " form.append('sectok', document.querySelector('[name=sectok]').value); form.append('ns', '');"
        " form.append('mediaid', 'a.png'); form.append('upload', new File([bytes], 'a.png', { type: 'image/png' }));"
        " await fetch('/lib/exe/mediamanager.php', { method: 'POST', body: form }); })()"
    )
    page.open(stand.address + "/doku.php/hello:world")
    page.until("[...document.querySelectorAll('.page img')].some(one => one.naturalWidth > 0)", "the picture in the page")


def around(stand):
    for path in ("/conf/users.auth.php", "/data/pages/hello/world.txt", "/inc/init.php", "/data/", "/conf/local.php"):
        status, _, body = ask(stand.address + path)
        expect(status == 403 or status == 404, f"{path} is open: {status} {body[:200]}")
    status, fields, body = ask(stand.address + "/feed.php")
    expect(status == 200 and b"<rdf" in body.lower(), f"the feed: {status} {fields} {body[:200]}")
    status, fields, _ = ask(stand.address + "/lib/exe/css.php?t=dokuwiki")
    expect(status == 200 and "ETag" in fields, f"styles: {status} {fields}")
    status, _, body = ask(stand.address + "/lib/exe/css.php?t=dokuwiki", If_None_Match=fields["ETag"])
    expect(status == 304 and not body, f"styles that the client has: {status}")
    status, fields, _ = ask(stand.address + "/lib/exe/js.php?t=dokuwiki", Accept_Encoding="gzip")
    expect(status == 200, f"scripts: {status} {fields}")
