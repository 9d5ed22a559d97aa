"""What runs first in the archive: unpacks what this Python needs into the user's cache, once, and runs it from there.

Written for any Python 3, so that one that is too old is told so instead of a syntax error.
"""

import os
import shutil
import sys
import sysconfig
import tempfile
import zipfile

SHARED = "shared/"


def main():
    """Unpack, and run the command line."""
    archive = os.path.dirname(os.path.abspath(__file__))
    with zipfile.ZipFile(archive) as packed:
        folder = unpacked(packed, said(packed))
    sys.path[0] = folder  # in place of the archive
    from tutti.cli.main import main as run

    run()


def said(packed):
    """What the archive says of itself: its content's hash, platform and Pythons."""
    lines = packed.read("FOR").decode().splitlines()
    found = dict(line.split("=", 1) for line in lines)
    mine = "cp%d%d" % sys.version_info[:2]
    system, machine = found["platform"].split("-", 1)
    here = (sys.platform, sysconfig.get_platform().rpartition("-")[2])
    if mine not in found["pythons"].split(",") or here != (system, machine):
        versions = ", ".join("3." + one[3:] for one in found["pythons"].split(","))
        sys.exit(
            "kubectl-tutti: this file is for Python %s on %s, and this is Python %d.%d on %s-%s. Run it with another "
            "python3 first on the PATH, or install it by: pipx install tutti"
            % (versions, found["platform"], sys.version_info[0], sys.version_info[1], here[0], here[1])
        )
    return found["content"], mine


def unpacked(packed, what):
    """The folder with what this Python needs; whoever comes first makes it, whole or not at all."""
    content, mine = what
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    home = os.path.join(cache, "kubectl-tutti")
    folder = os.path.join(home, content[:16] + "-" + mine)
    if os.path.isdir(folder):
        return folder
    os.makedirs(home, mode=0o700, exist_ok=True)
    making = tempfile.mkdtemp(dir=home)
    try:
        for name in packed.namelist():
            for part in (SHARED, mine + "/"):
                if name.startswith(part) and not name.endswith("/"):
                    write(packed, name, os.path.join(making, name[len(part) :]))
        try:
            os.rename(making, folder)
        except OSError:
            if not os.path.isdir(folder):  # or somebody else was faster
                raise
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return folder


def write(packed, name, to):
    """One file of the archive."""
    os.makedirs(os.path.dirname(to), exist_ok=True)
    with packed.open(name) as source, open(to, "wb") as target:
        shutil.copyfileobj(source, target)


if __name__ == "__main__":
    main()
