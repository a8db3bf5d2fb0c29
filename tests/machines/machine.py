"""A virtual machine with systemd and cgroup v2, in which a checkout is tried; QEMU emulates it where there is no KVM.

The image (make_image.sh) is made once and never changed: what a guest writes is lost when it ends. The checkout and
the job come in as a second disk, which is a tar archive. What the job prints comes out through a virtio port.
"""

import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_PACKAGES = ("sandbox", "curate", "rewards", "train")  # `curate doctor` imports all but the last, which it looks for
_STATUS = re.compile(r"\[exit status (\d+)\]\s*")


class MachineFailed(Exception):
    """The machine could not be made or started, or ended before its job did."""


def image() -> Path:
    """Return the folder of the image, which is made if there is none for today's packages. Raises MachineFailed."""
    sources = b"".join((_HERE / name).read_bytes() for name in ("make_image.sh", "packages.txt"))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "curate-code"
    folder = cache / f"machine-{hashlib.sha256(sources).hexdigest()[:12]}"
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(dir=cache, prefix="making-"))
    log = cache / "machine.log"
    print(f"making the image, about five minutes; see {log}", file=sys.stderr)
    with log.open("wb") as output:
        made = subprocess.run([_HERE / "make_image.sh", making], stdout=output, stderr=subprocess.STDOUT)
    if made.returncode != 0:
        shutil.rmtree(making)
        raise MachineFailed(f"no image was made, as {log} says; it takes root and debootstrap")
    making.rename(folder)
    return folder


class Job:
    """A shell script, run as root in a machine of its own, in the checkout.

    Iterate over it for the lines that it prints. Afterwards, `status` is its exit status. Raises MachineFailed if the
    machine ends first, or is killed because `seconds` are over.
    """

    def __init__(self, script: str, checkout: Path, seconds: float) -> None:
        self._script = script
        self._checkout = checkout
        self._seconds = seconds
        self.status: int | None = None

    def __iter__(self) -> Iterator[str]:
        folder = image()
        with tempfile.TemporaryDirectory(prefix="curate-machine-") as temporary:
            disk, console = Path(temporary, "job.tar"), Path(temporary, "console")
            _archive(self._checkout, self._script, disk)
            guest = subprocess.Popen(
                _command(folder, disk, console),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                text=True,
                errors="replace",
                env={**os.environ, "TMPDIR": temporary},
            )
            timer = threading.Timer(self._seconds, guest.kill)
            timer.start()
            try:
                assert guest.stdout is not None
                for line in guest.stdout:
                    if match := _STATUS.fullmatch(line):
                        self.status = int(match[1])
                    else:
                        yield line
            finally:
                timer.cancel()
                guest.kill()
                guest.wait()
            if self.status is None:
                said = console.read_text(errors="replace")[-2000:] if console.exists() else ""
                raise MachineFailed(f"the machine ended, or was killed after {self._seconds} s; it said:\n{said}")


def _command(folder: Path, disk: Path, console: Path) -> list[str]:
    # no_timer_check: on a busy machine, the emulator's timer ticks too seldom for the kernel's test of it.
    parameters = "root=/dev/vda rw console=ttyS0 quiet panic=-1 mitigations=off no_timer_check systemd.show_status=no"
    return [
        "nice", "-n", "10", "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "3G",
        "-kernel", str(folder / "vmlinuz"), "-initrd", str(folder / "initrd"),
        "-append", parameters,
        "-drive", f"file={folder / 'disk'},format=raw,if=virtio,snapshot=on",
        "-drive", f"file={disk},format=raw,if=virtio,read-only=on",
        "-serial", f"file:{console}",
        "-chardev", "file,path=/dev/stdout,id=output", "-device", "virtio-serial-pci",
        "-device", "virtserialport,chardev=output",
    ]  # fmt: skip


def _archive(checkout: Path, script: str, disk: Path) -> None:
    """Write what the guest unpacks: the checkout's packages, their metadata, this folder, and the job."""
    version = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]["version"]
    files = {
        "job": f"cd /srv/checkout\n{script}\n",
        f"curate_code-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: curate-code\nVersion: {version}\n",
    }
    with tarfile.open(disk, "w") as archive:
        for name in _PACKAGES:
            archive.add(checkout / name, name, filter=_source)
        archive.add(_HERE, "machines", filter=_source)
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text.encode()), 0o644
            archive.addfile(entry, io.BytesIO(text.encode()))


def _source(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return None if entry.name.endswith("__pycache__") else entry
