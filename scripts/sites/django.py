"""Django's administration by gunicorn: over TLS, so that its checks of origin and cookies count; a user is added."""

import os
import subprocess

from stand import answers, ask, compressed, configuration, expect, free_port

NEEDS = ["django-admin", "gunicorn"]
PASSWORD = "a long pass phrase 2026"
SETTINGS = """
ALLOWED_HOSTS = ['*']
STATIC_ROOT = {static!r}
SECURE_PROXY_SSL_HEADER = ('HTTP_X_FORWARDED_PROTO', 'https')
SECURE_SSL_REDIRECT = SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = True
SECURE_HSTS_SECONDS = 60
DEBUG = False
"""


def run(stand):
    folder = stand.directory("project")
    static = stand.folder / "static"
    subprocess.run(["django-admin", "startproject", "site_behind_weir", folder], check=True)
    with open(folder / "site_behind_weir/settings.py", "a", encoding="utf-8") as settings:
        settings.write(SETTINGS.format(static=str(static)))
    environment = {**os.environ, "DJANGO_SUPERUSER_PASSWORD": PASSWORD}
    for words in (["migrate"], ["collectstatic", "--noinput"],
                  ["createsuperuser", "--noinput", "--username=admin", "--email=a@example.org"]):
        subprocess.run(["django-admin", *words, "--settings=site_behind_weir.settings", f"--pythonpath={folder}"], check=True, env=environment, stdout=subprocess.DEVNULL)
    stand.owned(folder)
    port = free_port()
    command = ["gunicorn", "--workers=2", f"--bind=127.0.0.1:{port}", "site_behind_weir.wsgi"]
    stand.start("gunicorn", command, lambda: answers(port), cwd=folder, user=stand.user)
    stand.serve(configuration("Django, Flask", **{"127.0.0.1:8000": f"127.0.0.1:{port}", "/srv/www/site/static": static}), is_secure=True)
    page = stand.page()
    page.open(stand.address + "/admin/")
    page.until("!!document.querySelector('#login-form')", "the form to log in")
    page.fill(username="admin", password=PASSWORD)
    page.press("[type=submit]")
    page.has("Site administration")
    stand.picture(page, "administration")
    page.open(stand.address + "/admin/auth/user/add/")
    page.fill(username="second", password1=PASSWORD, password2=PASSWORD)
    page.press("[name=_save]")
    page.has("was added successfully")
    page.open(stand.address + "/admin/auth/user/")
    page.has("second")
    stand.picture(page, "users")
    page.no_failures()
    protocols = set(page.value("performance.getEntriesByType('resource').map(one => one.nextHopProtocol)"))
    expect(protocols == {"h2"} or protocols == {"h3"}, f"the resources came by {protocols}")
    status, fields, _ = ask(stand.address + "/admin")
    expect(status == 301 and fields["Location"] == "/admin/", f"slash: {status} {fields}")
    status, fields, body = ask(stand.address + "/admin/login/", "HEAD")
    expect(status == 200 and not body and "max-age=60" in fields["Strict-Transport-Security"], f"HEAD: {status} {fields}")
    compressed(stand, "/static/admin/css/base.css")
