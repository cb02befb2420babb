"""What the programs are made of: the crates of Cargo.lock, their graph, and the texts of their licences."""

import hashlib
import json
import os
import pathlib
import subprocess
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# The packages whose programs and libraries are delivered.
DELIVERED = ["weir-cli", "weir-arm-c", "weir-arm2-c"]
LICENCE_NAMES = ("licen", "copying", "copyright", "notice", "unlicense")
# Sources in other languages lie in a folder of their crate, with the licence on top.
LICENCE_DEPTH = 2
LICENCE_BYTES_MAX = 256 * 1024


def metadata(platform=None):
    """What `cargo metadata` says of the locked graph, of one platform or of all."""
    command = [os.environ.get("CARGO", "cargo"), "metadata", "--format-version", "1", "--locked"]
    command += ["--filter-platform", platform] if platform else []
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)


def locked():
    """(name, version) of each package of Cargo.lock, with its checksum, or None for those of the workspace."""
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text(encoding="utf-8"))
    return {(package["name"], package["version"]): package.get("checksum") for package in lock["package"]}


def version():
    """The version of the workspace."""
    return tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]["version"]


def epoch():
    """The time that stands in what is made: SOURCE_DATE_EPOCH, or the last commit's, in seconds."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    said = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    return int(said)


def linked(found, names):
    """The packages that are linked into those of `names`: their normal dependencies, and what these need."""
    nodes = {node["id"]: node for node in found["resolve"]["nodes"]}
    packages = {package["id"]: package for package in found["packages"]}
    waiting = [one for one, package in packages.items() if package["name"] in names]
    reached = set()
    while waiting:
        one = waiting.pop()
        if one in reached:
            continue
        reached.add(one)
        for used in nodes[one]["deps"]:
            if any(kind["kind"] is None for kind in used["dep_kinds"]):
                waiting.append(used["pkg"])
    return sorted((packages[one] for one in reached), key=lambda package: (package["name"], package["version"]))


def licence_texts(package):
    """The files of a package that state a licence, each as (path within it, text)."""
    folder = pathlib.Path(package["manifest_path"]).parent
    for path, folders, files in os.walk(folder):
        depth = len(pathlib.Path(path).relative_to(folder).parts)
        folders[:] = sorted(folders) if depth < LICENCE_DEPTH else []
        for name in sorted(files):
            file = pathlib.Path(path) / name
            if not name.lower().startswith(LICENCE_NAMES) or file.suffix in (".rs", ".c", ".h", ".py"):
                continue
            if file.stat().st_size <= LICENCE_BYTES_MAX:
                yield file.relative_to(folder), file.read_text(encoding="utf-8", errors="replace").strip()


def notices(platform):
    """The licences of all crates of others that are linked into what is delivered, as one text."""
    packages = [package for package in linked(metadata(platform), DELIVERED) if package["source"]]
    texts, users, without = {}, {}, []
    for package in packages:
        name = f"{package['name']} {package['version']}"
        found = list(licence_texts(package))
        if not found:
            without.append(f"{name} ({package['license']})")
        for path, text in found:
            digest = hashlib.sha256(" ".join(text.split()).encode()).hexdigest()
            texts.setdefault(digest, text)
            users.setdefault(digest, []).append(f"{name} ({path})")
    said = ["The crates that are linked into weir and its libraries, each under the licence that it names.\n"]
    said += [f"{package['name']} {package['version']}: {package['license']}" for package in packages]
    said.append("\nThese come without a text of their licence:\n")
    said += without
    for digest, text in sorted(texts.items(), key=lambda one: users[one[0]][0]):
        said.append("\n" + "=" * 80 + "\n" + "\n".join(users[digest]) + "\n" + "-" * 80 + "\n\n" + text)
    return "\n".join(said) + "\n"
