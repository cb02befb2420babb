"""Packages for Debian: what packaging/debian says of them, and how each is made of a folder by dpkg-deb."""

import datetime
import email.utils
import fnmatch
import gzip
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "packaging" / "debian"
# dpkg-deb's way to compress; WEIR_DEB_COMPRESSION="gzip -z1" is quicker, for trials.
COMPRESSION = ["xz", "-z3"]
SCRIPTS = ["preinst", "postinst", "prerm", "postrm"]
FIELDS = ["Package", "Version", "Architecture", "Maintainer", "Installed-Size", "Section", "Priority", "Multi-Arch"]


class Fault(Exception):
    """What is wrong with the packages; its message says what to do."""


def run(*words, **more):
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
    if done.returncode:
        raise Fault(f"{words[0]} ended with {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def filled(text, values):
    """A text with its ${NAMES}; a name without a value is a fault."""
    def value(found):
        if found[1] not in values:
            raise Fault(f"packaging/debian names ${{{found[1]}}}, which has no value here")
        return values[found[1]]
    return re.sub(r"\$\{([a-z-]+)\}", value, text)


def paragraphs(text):
    """The paragraphs of a control file, each a dictionary; lines of a field that go on keep their form."""
    found = []
    for block in re.split(r"\n\s*\n", text.strip()):
        fields, last = {}, None
        for line in block.splitlines():
            if line.startswith((" ", "\t")) and last:
                fields[last] += "\n" + line
            else:
                last, _, value = line.partition(":")
                fields[last] = value.strip()
        found.append(fields)
    return found


def names():
    """The packages of packaging/debian/control; ${php} stands for a version of PHP."""
    return [fields["Package"].replace("${php}", "") for fields in paragraphs((FOLDER / "control").read_text())]


def owners():
    """(package, pattern) of packaging/debian/contents."""
    lines = (FOLDER / "contents").read_text().splitlines()
    return [tuple(line.split()) for line in lines if line and not line.startswith("#")]


def split(stage, to):
    """Moves what is staged into a folder for each package, by packaging/debian/contents."""
    table = owners()
    for file in sorted(path for path in stage.rglob("*") if path.is_symlink() or not path.is_dir()):
        name = str(file.relative_to(stage))
        owner = next((package for package, pattern in table if fnmatch.fnmatchcase(name, pattern)), None)
        if owner is None:
            raise Fault(f"{name} is staged, and packaging/debian/contents says of no package that it has it")
        (to / owner / name).parent.mkdir(parents=True, exist_ok=True)
        file.rename(to / owner / name)


def shared_libraries(folder):
    """What the programs and libraries of a folder need, as dpkg-shlibdeps says."""
    programs = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink() and is_elf(path)]
    if not programs:
        return ""
    with tempfile.TemporaryDirectory() as work:
        (pathlib.Path(work) / "debian").mkdir()
        # It reads only the names of the packages there.
        (pathlib.Path(work) / "debian" / "control").write_text("Source: weir\n\nPackage: weir\nArchitecture: any\n")
        said = run("dpkg-shlibdeps", "-O", "--warnings=0", *[f"-e{path.resolve()}" for path in programs], cwd=work)
    return said.strip().removeprefix("shlibs:Depends=")


def foreign_libraries(folder):
    """The same for programs of another architecture, by packaging/debian/libraries."""
    lines = [line.split(maxsplit=1) for line in (FOLDER / "libraries").read_text().splitlines() if not line.startswith("#")]
    table, needs = dict(lines), set()
    for path in (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink() and is_elf(path)):
        for name in re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "--wide", "--dynamic", path)):
            if name not in table:
                raise Fault(f"{path.name} needs {name}, which packaging/debian/libraries does not list")
            needs.add(table[name])
    return ", ".join(sorted(needs))


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def compress(path):
    """Replaces a file by its gzip, which has neither time nor name in it."""
    with open(path, "rb") as file, open(f"{path}.gz", "wb") as to:
        to.write(gzip.compress(file.read(), 9, mtime=0))
    path.unlink()


def compress_manual(folder):
    for path in sorted(folder.glob("usr/share/man/man*/*")):
        if path.suffix != ".gz":
            compress(path)


def describe(folder, package, about):
    """Adds what every package has: its licence and what changed."""
    documents = folder / "usr" / "share" / "doc" / package
    documents.mkdir(parents=True, exist_ok=True)
    (documents / "copyright").write_text(copyright_text(about))
    date = email.utils.format_datetime(datetime.datetime.fromtimestamp(about.epoch, datetime.timezone.utc))
    entry = f"weir ({about.version}) bookworm; urgency=medium\n\n  * Release {about.version}; what changed for users stands in\n"
    entry += f"    /usr/share/doc/weir/CHANGELOG.md of the package weir.\n\n -- {about.maintainer}  {date}\n"
    (documents / "changelog").write_text(entry)
    compress(documents / "changelog")


def copyright_text(about):
    mit = (ROOT / "LICENSE-MIT").read_text()
    holders = re.search(r"^Copyright \(c\) (.*)$", mit, re.M)[1]
    year = datetime.datetime.fromtimestamp(about.epoch, datetime.timezone.utc).year
    body = "\n".join(f" {line}".rstrip() or " ." for line in mit.strip().splitlines())
    text = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"
    text += "Upstream-Name: weir\nUpstream-Contact: " + about.maintainer + "\n"
    text += "Comment: The licences of the crates that are linked into the programs stand in\n"
    text += " /usr/share/doc/weir/licences-of-crates.gz of the package weir; sbom.cdx.json.gz beside it lists the crates.\n\n"
    text += f"Files: *\nCopyright: {year} {holders}\n"
    text += "License: Expat or Apache-2.0\n\n"
    text += re.sub(r"^ $", " .", f"License: Expat\n{body}\n\n", flags=re.M)
    return text + ("License: Apache-2.0\n On Debian the text of this licence stands in\n"
                   " /usr/share/common-licenses/Apache-2.0.\n")


def control_text(fields, about, folder, architecture):
    size_kib = sum(-(-path.lstat().st_size // 1024) for path in folder.rglob("*") if path.is_symlink() or path.is_file())
    fields = {"Architecture": architecture, **fields, "Version": about.version, "Maintainer": about.maintainer,
              "Installed-Size": str(size_kib), "Priority": "optional"}
    order = FIELDS + [name for name in fields if name not in FIELDS and name != "Description"] + ["Description"]
    fields["Depends"] = ", ".join(part.strip() for part in fields.get("Depends", "").split(",") if part.strip())
    return "".join(f"{name}: {fields[name]}\n" for name in order if fields.get(name))


def make(folder, kind, fields, about, architecture, to):
    """Makes the package of a folder: control file, scripts, checksums. Returns its path."""
    package = fields["Package"]
    describe(folder, package, about)
    control = folder / "DEBIAN"
    control.mkdir()
    (control / "control").write_text(control_text(fields, about, folder, architecture))
    values = about.values
    for script in SCRIPTS:
        source = FOLDER / f"{kind}.{script}"
        if source.exists():
            (control / script).write_text(filled(source.read_text(), values))
            (control / script).chmod(0o755)
    for part in ("triggers", "shlibs"):
        source = FOLDER / f"{kind}.{part}"
        if source.exists():
            (control / part).write_text(filled(source.read_text(), values))
    files = sorted(path for path in folder.rglob("*") if path.is_file() and control not in path.parents)
    settings = [f"/{path.relative_to(folder)}\n" for path in files if path.relative_to(folder).parts[0] == "etc"]
    if settings:
        (control / "conffiles").write_text("".join(settings))
    sums = [f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(folder)}\n"
            for path in files if not path.is_symlink() and f"/{path.relative_to(folder)}\n" not in settings]
    (control / "md5sums").write_text("".join(sums))
    return pack(folder, to / f"{package}_{about.version}_{fields.get('Architecture', architecture)}.deb", about.epoch)


def pack(folder, deb, epoch):
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        os.utime(path, (epoch, epoch), follow_symlinks=False)
    compression = os.environ.get("WEIR_DEB_COMPRESSION", "").split() or COMPRESSION
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
    deb.parent.mkdir(parents=True, exist_ok=True)
    run("dpkg-deb", "--root-owner-group", f"-Z{compression[0]}", *compression[1:], "--build", folder, deb, env=environment)
    return deb


def needed(*programs):
    missing = [program for program in programs if not shutil.which(program)]
    if missing:
        raise Fault(f"{', '.join(missing)}: not installed; apt-get install dpkg-dev binutils")


def main(work):
    """Runs a script's work; a fault ends it with its message and exit code 1."""
    try:
        work()
    except Fault as fault:
        print(f"{pathlib.Path(sys.argv[0]).name}: {fault}", file=sys.stderr)
        sys.exit(1)
