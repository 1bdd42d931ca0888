"""A directory with folders, pretended: what a power cut leaves of it is as for a pretended disk.

A folder is a name that ends with "/", in the folder above it: if a power cut takes that name, all below it is gone.
"""

from random import Random

from cordwood.machine.objects.tree import Found
from cordwood.sim.disk import SimDirectory


class SimTree(SimDirectory):
    """A pretended directory with folders in it."""

    def link(self, old: str, new: str) -> None:
        self._operation("link", new, 0)
        self._need_folder_of(new)
        if new in self._names or new + "/" in self._names:
            raise FileExistsError(f"{new} is there already")
        inode = self._names[new] = self._names[old]
        self._renames.append((None, new, inode))

    def make_folder(self, folder: str) -> None:
        self._need_folder_of(folder)
        if folder in self._names:
            raise FileExistsError(f"{folder} is there already")
        self.open(folder + "/", create=True)

    def names_in(self, folder: str) -> list[Found]:
        self._need_folder_of(f"{folder}/x" if folder else "x")
        return sorted(
            Found(path.removeprefix(folder).removeprefix("/"), len(inode.cache), 0)
            for path, inode in self._names.items()
            if _folder_of(path) == folder
        )

    def remove(self, name: str) -> None:
        if name not in self._names:
            raise FileNotFoundError(name)
        super().remove(name)

    def sync_folder(self, folder: str) -> None:
        self._operation("sync folder", folder, 0)
        later = []
        for old, new, inode in self._renames:
            if _folder_of(old or new or "") != folder:
                later.append((old, new, inode))
            elif new is not None:
                self._durable_names[new] = inode
            elif old is not None:
                self._durable_names.pop(old, None)
        self._renames[:] = later

    def unlock(self) -> None:
        self._locked = False

    def after_power_cut(self, random: Random, keep: float | None = None) -> "SimTree":
        """Return the tree as a power cut now may leave it; `keep` is the share of what was not synced."""
        return self._from(self.image().after_power_cut(random, keep))

    def after_kill(self) -> "SimTree":
        """Return the tree as the next process finds it when only the process died: nothing more is synced by that."""
        tree = SimTree()
        tree._names, tree._durable_names = dict(self._names), dict(self._durable_names)
        tree._renames = list(self._renames)
        return tree

    @staticmethod
    def _from(disk: SimDirectory) -> "SimTree":
        tree = SimTree()
        for name in sorted(disk._names):  # a folder comes before what is in it
            folder = _folder_of(name)
            if not folder or folder + "/" in tree._names:
                tree._names[name] = disk._names[name]
        tree._durable_names = dict(tree._names)
        return tree

    def _need_folder_of(self, path: str) -> None:
        folder = _folder_of(path)
        if folder and folder + "/" not in self._names:
            raise FileNotFoundError(f"there is no folder {folder}")


def _folder_of(path: str) -> str:
    return path.rstrip("/").rpartition("/")[0]
