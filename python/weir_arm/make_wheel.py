"""Makes the wheel: the package, and the C library that it calls. Also a backend for pip (PEP 517), which asks for no other.

By hand: python3 make_wheel.py FOLDER
"""

import base64
import hashlib
import os
import re
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIBRARY = "libarm4.so"


def _project(key):
    # tomllib is there from Python 3.11 on only.
    text = (HERE / "pyproject.toml").read_text()
    return re.search(rf'^{key} = "(.*)"$', text, re.MULTILINE).group(1)


def _library():
    """The C library: named by WEIR_LIBARM4, or built into the target folder."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent.parent / "target"))
    found = Path(os.environ.get("WEIR_LIBARM4", target / "release" / LIBRARY))
    if not found.exists():
        raise SystemExit(f"{found} is missing: make build, or name it by WEIR_LIBARM4")
    return found


def _files():
    """(name in the wheel, bytes) of the package."""
    for path in sorted((HERE / "weir_arm").iterdir()):
        if path.suffix in (".py", ".typed"):
            yield f"weir_arm/{path.name}", path.read_bytes()
    yield f"weir_arm/{LIBRARY}", _library().read_bytes()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Writes the wheel into a folder and returns its name."""
    version = _project("version")
    platform = re.sub(r"[-.]", "_", sysconfig.get_platform())
    tag = f"py3-none-{platform}"
    info = f"weir_arm-{version}.dist-info"
    metadata = (
        f"Metadata-Version: 2.1\nName: weir-arm\nVersion: {version}\nSummary: {_project('description')}\n"
        f"Requires-Python: {_project('requires-python')}\nLicense: MIT OR Apache-2.0\n"
        f"Description-Content-Type: text/markdown\n\n{(HERE / 'README.md').read_text()}"
    )
    wheel = f"Wheel-Version: 1.0\nGenerator: weir_arm\nRoot-Is-Purelib: false\nTag: {tag}\n"
    files = [*_files(), (f"{info}/METADATA", metadata.encode()), (f"{info}/WHEEL", wheel.encode())]
    record = ""
    name = f"weir_arm-{version}-{tag}.whl"
    with zipfile.ZipFile(Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files:
            archive.writestr(_entry(path), content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record += f"{path},sha256={digest},{len(content)}\n"
        archive.writestr(_entry(f"{info}/RECORD"), f"{record}{info}/RECORD,,\n")
    return name


def _entry(path):
    """The same bytes whenever it is built."""
    entry = zipfile.ZipInfo(path, (2026, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o100644 << 16
    return entry


def build_sdist(sdist_directory, config_settings=None):
    """Packs the sources; the C library is built from the whole repository."""
    name = f"weir_arm-{_project('version')}"
    with tarfile.open(Path(sdist_directory) / f"{name}.tar.gz", "w:gz") as archive:
        for path in ("pyproject.toml", "README.md", "make_wheel.py", "weir_arm"):
            archive.add(HERE / path, f"{name}/{path}", filter=lambda item: None if "__pycache__" in item.name else item)
    return f"{name}.tar.gz"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    print(Path(sys.argv[1]) / build_wheel(sys.argv[1]))
