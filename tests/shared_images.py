"""Images of programs' files that sandboxes of one test process, and of its forks, share: a copy takes half a second."""

from contextlib import suppress

from sandbox.backends import local
from sandbox.errors import BackendUnavailable
from sandbox.jail.packages import JailPackages
from sandbox.packages import to_jail_packages

_made: list[tuple[JailPackages, local._Image]] = []
_OwnImage = local._Image


class _SharedImage(_OwnImage):
    """An image whose namespaces stay for later sandboxes with the same packages."""

    def open_namespaces(self) -> tuple[int, ...]:
        for packages, image in _made:
            if packages == self._packages:
                return image.open_namespaces()
        image = _OwnImage(self._packages)
        namespaces = image.open_namespaces()
        _made.append((self._packages, image))
        return namespaces


def share_images(*, beginning_with_the_usual_one: bool = False) -> None:
    """Let all sandboxes of this process share images from now on, with one made now if asked."""
    local._Image = _SharedImage  # type: ignore[misc]
    if beginning_with_the_usual_one:
        with suppress(BackendUnavailable):
            local._Image(to_jail_packages([], local._find_numpy())).open_namespaces()
