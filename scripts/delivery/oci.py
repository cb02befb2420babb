"""Images as the Open Container Initiative lays them out (image-spec 1.1): blobs by their SHA-256, and an index.

Layers are tar files in gzip; their entries are sorted, belong to root and have one time: same content, same bytes.
"""

import gzip
import hashlib
import io
import json
import os
import pathlib
import tarfile

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
INDEX = "application/vnd.oci.image.index.v1+json"
# What a reader takes at most: a foreign index could say anything.
JSON_BYTES_MAX = 4 << 20


class Damaged(Exception):
    """A layout that is not what its digests say; the message names the blob."""


def layer(folder, epoch, modes):
    """A folder as a layer: its gzip, and the digest of the tar within. `modes` overrides those of single paths."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(pathlib.Path(folder).rglob("*")):
            name = str(path.relative_to(folder))
            entry = archive.gettarinfo(str(path), name)
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mtime = epoch
            entry.mode = modes.get(name, entry.mode & 0o755)
            # Hard links depend on the order of a folder; each is a file of its own.
            if path.is_file() and not path.is_symlink():
                entry.type, entry.linkname, entry.size = tarfile.REGTYPE, "", path.stat().st_size
                with open(path, "rb") as content:
                    archive.addfile(entry, content)
            else:
                archive.addfile(entry)
    return gzip.compress(plain.getvalue(), 6, mtime=0), digest(plain.getvalue())


def digest(content):
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class Layout:
    """A folder in which an image is put together."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        (self.folder / "blobs/sha256").mkdir(parents=True)

    def add(self, content, kind):
        """Adds a blob and returns its descriptor."""
        name = digest(content)
        (self.folder / "blobs" / name.replace(":", "/")).write_bytes(content)
        return {"mediaType": kind, "digest": name, "size": len(content)}

    def finish(self, config, layers, tag, annotations):
        """Writes the configuration, the manifest and the index. `layers` are (gzip, digest of the tar)."""
        described = [self.add(content, LAYER) for content, _ in layers]
        config = {**config, "rootfs": {"type": "layers", "diff_ids": [plain for _, plain in layers]}}
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": self.add(text(config), CONFIG),
                    "layers": described, "annotations": annotations}
        found = {**self.add(text(manifest), MANIFEST), "annotations": {"org.opencontainers.image.ref.name": tag},
                 "platform": {"architecture": config["architecture"], "os": config["os"]}}
        (self.folder / "index.json").write_bytes(text({"schemaVersion": 2, "mediaType": INDEX, "manifests": [found]}))
        (self.folder / "oci-layout").write_bytes(text({"imageLayoutVersion": "1.0.0"}))
        return found["digest"]


def text(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def read(folder):
    """Reads a layout as a runtime does: (configuration, tars of the layers); each blob is checked."""
    folder = pathlib.Path(folder)

    def blob(descriptor):
        kind, _, name = descriptor["digest"].partition(":")
        if kind != "sha256" or not name.isalnum():
            raise Damaged(f"{descriptor['digest']}: no digest by SHA-256")
        content = (folder / "blobs/sha256" / name).read_bytes()
        if digest(content) != descriptor["digest"] or len(content) != descriptor["size"]:
            raise Damaged(f"{descriptor['digest']}: the blob is not what its digest says")
        return content

    if (folder / "index.json").stat().st_size > JSON_BYTES_MAX:
        raise Damaged("index.json is larger than 4 MiB")
    index = json.loads((folder / "index.json").read_bytes())
    manifest = json.loads(blob(index["manifests"][0]))
    config = json.loads(blob(manifest["config"]))
    plain = [gzip.decompress(blob(one)) for one in manifest["layers"]]
    for content, wanted in zip(plain, config["rootfs"]["diff_ids"], strict=True):
        if digest(content) != wanted:
            raise Damaged(f"{wanted}: the layer is not what the configuration says")
    return config, plain


def unpack(folder, to):
    """Unpacks an image into a folder, and returns its configuration."""
    config, layers = read(folder)
    os.makedirs(to)
    for content in layers:
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            archive.extractall(to)
    return config
