#!/bin/sh
# Installs weir for people without Debian's packages: install.sh FROM [--prefix DIR] | --uninstall [--prefix DIR]
#
#   sh install.sh ./weir-0.2.0-x86_64.tar.gz              an archive that is here (or a folder with one archive)
#   sh install.sh https://example.org/weir-0.2.0-x86_64.tar.gz
#   sh install.sh --uninstall                              removes what was installed, and nothing else
#
# FROM has SHA256SUMS beside it: an archive that is not as listed there is not unpacked. Sums protect against a transfer
# that went wrong; that they are the project's own, only the way by which you got them says. Nothing is fetched but FROM
# and its sums. What is installed is listed in PREFIX/share/weir/installed, by which it is removed.
set -eu

say() { echo "install.sh: $*"; }
fail() {
    echo "install.sh: $*" >&2
    exit 1
}
usage() {
    echo 'usage: install.sh FROM [--prefix DIR] | install.sh --uninstall [--prefix DIR]' >&2
    exit 2
}

prefix=/usr/local from= uninstall=
while [ $# -gt 0 ]; do
    case $1 in
        --prefix) [ $# -ge 2 ] || usage; prefix=$2; shift ;;
        --prefix=*) prefix=${1#--prefix=} ;;
        --uninstall) uninstall=yes ;;
        -h | --help) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 0 ;;
        -*) usage ;;
        *) [ -z "$from" ] || usage; from=$1 ;;
    esac
    shift
done
case $prefix in
    /*) ;;
    *) fail "--prefix $prefix: it has to begin with a /" ;;
esac
list=$prefix/share/weir/installed

remove() { # LIST
    while IFS= read -r name; do
        # Only paths below the prefix are taken from a list.
        case $name in
            /* | *..* | '') fail "$1 names $name, which is not below $prefix; nothing more is removed" ;;
        esac
        case $name in
            */) rmdir "$prefix/$name" 2>/dev/null || true ;;
            *) rm -f "$prefix/$name" ;;
        esac
    done <"$1"
}

if [ -n "$uninstall" ]; then
    [ -z "$from" ] || usage
    [ -e "$list" ] || fail "$list is missing: nothing was installed below $prefix by this script"
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    cp "$list" "$work/list"
    remove "$work/list"
    say "removed what was installed below $prefix"
    exit 0
fi
[ -n "$from" ] || usage

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
case $from in
    http://* | https://*)
        archive=${from##*/}
        for file in "$from" "${from%/*}/SHA256SUMS"; do
            say "fetches $file"
            curl --fail --silent --show-error --location --max-time 600 --output "$work/${file##*/}" "$file" ||
                fail "$file could not be fetched"
        done
        ;;
    *)
        if [ -d "$from" ]; then
            set -- "$from"/weir-*.tar.gz
            [ $# -eq 1 ] && [ -e "$1" ] || fail "$from: it has to hold one archive weir-*.tar.gz; name the archive"
            from=$1
        fi
        [ -f "$from" ] || fail "$from: there is no such archive"
        archive=${from##*/}
        [ -f "$(dirname "$from")/SHA256SUMS" ] || fail "$(dirname "$from")/SHA256SUMS is missing: the archive cannot be verified"
        cp "$from" "$(dirname "$from")/SHA256SUMS" "$work"
        ;;
esac

sum=$(awk -v name="$archive" '$2 == name || $2 == "*" name { print $1 }' "$work/SHA256SUMS")
[ -n "$sum" ] || fail "SHA256SUMS does not list $archive: it is not installed"
found=$(sha256sum "$work/$archive" | cut -d ' ' -f 1)
[ "$found" = "$sum" ] || fail "$archive is not as SHA256SUMS says ($found, not $sum): it is not installed; fetch it again"
say "verified $archive: SHA-256 $sum"

mkdir "$work/unpacked"
tar -xzf "$work/$archive" -C "$work/unpacked" --no-same-owner
cd "$work/unpacked"
# One folder at the top, of the archive's name.
[ "$(find . -mindepth 1 -maxdepth 1 | wc -l)" -eq 1 ] || fail "$archive has not one folder at its top"
cd ./*
[ -x bin/weir ] || fail "$archive has no bin/weir"
./bin/weir --version >/dev/null || 
    fail "the program of $archive does not run here: it needs $(uname -s) on the machine of its name, glibc 2.35, libelf, SQLite 3 and zlib"

# A former version goes first, so that nothing of it stays.
if [ -e "$list" ]; then
    cp "$list" "$work/former"
    remove "$work/former"
    say "removed the version before"
fi
mkdir -p share/weir
touch share/weir/installed
# Folders end with a slash, and only those are listed that were not there: the innermost first, to be removed in this order.
find . -mindepth 1 -type d | sed 's|^\./||' | LC_ALL=C sort -r | while IFS= read -r name; do
    [ -d "$prefix/$name" ] || echo "$name/"
done >"$work/folders"
find . \( -type f -o -type l \) | sed 's|^\./||' | LC_ALL=C sort >"$work/files"
cat "$work/files" "$work/folders" >"$work/installed"
while IFS= read -r name; do
    mkdir -p "$prefix/$(dirname "$name")"
    # Beside it and then renamed: a running program keeps its own file.
    cp -P -p "$name" "$prefix/$name.new"
    mv -f "$prefix/$name.new" "$prefix/$name"
done <"$work/files"
# What programs are built with says where it lies; the archive was made for /usr/local.
for file in "$prefix"/lib/pkgconfig/arm.pc "$prefix"/lib/pkgconfig/arm4.pc; do
    sed "s|^prefix=.*|prefix=$prefix|" "$file" >"$file.new"
    mv -f "$file.new" "$file"
done
cp "$work/installed" "$list"
chmod 644 "$list"
if [ "$(id -u)" -eq 0 ] && command -v ldconfig >/dev/null; then
    ldconfig
fi
say "installed $("$prefix/bin/weir" --version) below $prefix ($(wc -l <"$work/files") files); remove it by: install.sh --uninstall --prefix $prefix"
