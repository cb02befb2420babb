"""WordPress from Debian's package: its installation, a post with a picture, permalinks, and its REST interface."""

import json
import shutil

from stand import ask, compressed, configuration, expect

SOURCE = "/usr/share/wordpress"
NEEDS = [SOURCE, "/usr/sbin/mariadbd", "mariadb-install-db"]
PASSWORD = "a long pass phrase 2026"
NEVER = shutil.ignore_patterns("languages")


def run(stand):
    root = stand.folder / "wordpress"
    # Debian's own wp-config.php looks for files in /etc; without it the installation begins as WordPress means it.
    shutil.copytree(SOURCE, root, ignore=NEVER)
    (root / "wp-config.php").unlink()
    (root / "wp-content/uploads").mkdir()
    stand.owned(root)
    database = stand.mariadb("wordpress")
    stand.serve(configuration("WordPress", **{"/srv/www/wordpress": root, "/run/php/php8.2-fpm.sock": stand.php()}))
    page = stand.page()
    install(stand, page, database)
    log_in(stand, page)
    permalinks(stand, page)
    post_with_picture(stand, page)
    around(stand, root)


def install(stand, page, database):
    page.open(stand.address + "/")
    page.has("Let")
    page.press(".button-large, p.step a.button")
    page.fill(dbname="wordpress", uname="root", pwd="", dbhost=f"localhost:{database}")
    page.press("[name=submit]")
    page.has("All right")
    page.press("p.step a.button")
    page.fill(weblog_title="A site behind weir", user_name="admin", admin_password=PASSWORD, admin_email="a@example.org")
    page.until("document.querySelector('#submit') && !document.querySelector('#submit').disabled", "the button Install")
    page.press("#submit")
    page.has("Success!")
    stand.picture(page, "installed")


def log_in(stand, page):
    page.open(stand.address + "/wp-admin/")
    page.until("!!document.querySelector('#loginform')", "the form to log in")
    expect("/wp-login.php?redirect_to=" in page.value("location.href"), f"not led to the form: {page.where()}")
    page.fill(log="admin", pwd=PASSWORD)
    page.press("#wp-submit")
    page.has("Dashboard")
    stand.picture(page, "dashboard")
    page.no_failures(BUT)


def permalinks(stand, page):
    page.open(stand.address + "/wp-admin/options-permalink.php")
    # The ready-made choices begin with /index.php on servers whose name WordPress does not know.
    page.value("document.querySelector('#custom_selection').click()")
    page.fill(permalink_structure="/%postname%/")
    page.press("#submit")
    page.has("Permalink structure updated")
    page.open(stand.address + "/")
    page.has("A site behind weir")
    stand.picture(page, "home")
    page.open(stand.address + "/hello-world/")
    page.has("Welcome to WordPress")
    page.fill(comment="A comment that came through weir.")
    page.press("#commentform [type=submit]")
    page.has("A comment that came through weir.")
    page.no_failures(BUT)


# What the pages ask of other sites, which a closed network does not have.
BUT = ["gravatar.com", "wordpress.org", "s.w.org", "googleapis.com", "favicon"]


def post_with_picture(stand, page):
    picture = stand.folder / "picture.png"
    page.picture(picture)
    page.open(stand.address + "/wp-admin/media-new.php?browser-uploader")
    page.choose_file("#async-upload", picture)
    page.press("#html-upload")
    page.until("location.pathname.endsWith('/upload.php')", "the list of pictures")
    page.no_failures(BUT)
    # The editor of posts, as it saves them: by the REST interface, with the cookie and its nonce.
    page.open(stand.address + "/wp-admin/post-new.php")
    page.until("!!(window.wp && wp.apiFetch && wp.data && wp.data.select('core/editor'))", "the editor")
    media = page.value("wp.apiFetch({ path: '/wp/v2/media' })")
    expect(len(media) == 1, f"one picture: {media}")
    content = f'<!-- wp:image --><figure class="wp-block-image"><img src="{media[0]["source_url"]}"/></figure><!-- /wp:image -->'
    page.value(
        f"(async () => {{ const editor = wp.data.dispatch('core/editor');"
        f" editor.editPost({{ title: 'Written behind weir', content: {json.dumps(content)}, status: 'publish' }});"
        f" await editor.savePost(); }})()"
    )
    page.until("wp.data.select('core/editor').didPostSaveRequestSucceed()", "the post is saved")
    stand.picture(page, "editor")
    page.no_failures(BUT)
    page.open(stand.address + "/written-behind-weir/")
    page.has("Written behind weir")
    page.until("document.querySelector('.wp-block-image img').naturalWidth > 0", "the picture in the post")
    stand.picture(page, "post")
    page.no_failures(BUT)


def around(stand, root):
    status, _, body = ask(stand.address + "/wp-json/wp/v2/posts")
    titles = {post["title"]["rendered"] for post in json.loads(body)}
    expect(status == 200 and "Written behind weir" in titles, f"REST: {status} {titles}")
    status, fields, body = ask(stand.address + "/written-behind-weir/", "HEAD")
    expect(status == 200 and not body and "text/html" in fields["Content-Type"], f"HEAD: {status} {fields}")
    status, fields, _ = ask(stand.address + "/written-behind-weir")
    expect(status == 301 and fields["Location"] == stand.address + "/written-behind-weir/", f"slash: {status} {fields}")
    status, fields, _ = ask(stand.address + "/wp-admin")
    expect(status == 301 and fields["Location"].endswith("/wp-admin/"), f"directory: {status} {fields}")
    status, _, body = ask(stand.address + "/no/such/page")
    expect(status == 404 and b"A site behind weir" in body, f"WordPress's own page for what is not there: {status}")
    # A script among uploads is text that the browser gets, or nothing, but never run.
    (root / "wp-content/uploads/evil.php").write_text("<?php echo 6 * 7;")
    _, _, body = ask(stand.address + "/wp-content/uploads/evil.php")
    expect(b"42" not in body and b"<?php" not in body, f"a script among uploads: {body[:200]}")
    for name in ("wp-config.php", ".htaccess"):
        _, _, body = ask(f"{stand.address}/{name}")
        expect(b"DB_PASSWORD" not in body and b"Rewrite" not in body, f"{name} is shown: {body[:200]}")
    compressed(stand, "/wp-includes/css/dashicons.min.css")
