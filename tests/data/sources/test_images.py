import io
import json
import os
import subprocess
import sys
import tarfile
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from fedloom.data import from_arrays
from fedloom.data.sources import images as source
from fedloom.data.sources.images import decoded, images, plain
from fedloom.errors import ArgumentError, DataError, FedloomWarning

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "fedloom" / "images"


def png(colour: tuple[int, ...] = RED, size: tuple[int, int] = (6, 4), mode: str = "RGB") -> bytes:
    file = io.BytesIO()
    Image.new(mode, size, colour).save(file, "PNG")
    return file.getvalue()


FILES = {"dog/b.png": png(GREEN), "cat/deep/er/a.PNG": png(BLUE), "dog/a.png": png(RED)}
PIXELS = [BLUE, RED, GREEN]  # sorted by class and name


def folder(root: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


def tar(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def zipped(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


MAKERS: dict[str, Callable[[Path, dict[str, bytes]], Path]] = {
    "pets": folder, "pets.tar": tar, "pets.tar.gz": tar, "pets.zip": zipped, "pets.TAR": tar,
}  # fmt: skip


@pytest.mark.parametrize("name", MAKERS)
def test_every_folder_is_a_class(tmp_path: Path, name: str) -> None:
    data = images(MAKERS[name](tmp_path / name, FILES), size=2)
    assert (data.name, data.class_names, data.classes, data.note) == ("pets", ("cat", "dog"), 2, "")
    assert data.columns["x"].dtype == np.uint8
    assert data.columns["x"].shape == (3, 2, 2, 3)
    assert data.columns["x"][:, 0, 0].tolist() == [list(colour) for colour in PIXELS]
    assert (data.columns["y"].tolist(), data.columns["y"].dtype) == ([0, 1, 1], np.int32)
    assert (data.train.tolist(), len(data.validation), len(data.test)) == ([0, 1, 2], 0, 0)


@pytest.mark.parametrize("name", [name for name in MAKERS if name != "pets"])
def test_an_archive_may_have_an_outer_folder(tmp_path: Path, name: str) -> None:
    files = {f"./all/{name}": content for name, content in FILES.items()}
    files |= {"__MACOSX/all/cat/._a.png": b"", "all/.hidden/a.png": b"", "loose.png": b""}
    with pytest.warns(FedloomWarning, match=r"1 image is not read, the first loose\.png: outside the class folders"):
        data = images(MAKERS[name](tmp_path / name, files), size=2)
    assert (data.class_names, data.columns["y"].tolist()) == (("cat", "dog"), [0, 1, 1])


def test_one_class_with_deeper_folders(tmp_path: Path) -> None:
    assert images(folder(tmp_path / "a", {"cat/x/1.png": png(), "cat/y/1.png": png()})).class_names == ("cat",)
    assert images(tar(tmp_path / "a.tar", {"cat/1.png": png(), "cat/y/1.png": png()})).class_names == ("cat",)


def encoded(image: Image.Image, kind: str, **more: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **more)
    return file.getvalue()


@pytest.mark.parametrize("name", MAKERS)
def test_files_that_are_not_read_are_counted_with_a_reason(tmp_path: Path, name: str) -> None:
    others = {"cat/notes.txt": b"a cat", "cat/b.heic": b"", "dog/c.txt": b"", "labels.csv": b"", "cat/.DS_Store": b""}
    path = MAKERS[name](tmp_path / name, FILES | others | {"loose.png": png(), "other.TIF": b""})
    for _ in range(2):  # the second time from the cache
        with pytest.warns(FedloomWarning) as issued:
            data = images(path, size=2)
        assert [str(one.message) for one in issued] == [
            "pets: 2 images are not read, the first loose.png: outside the class folders; move each into the folder of "
            "its class",
            "pets: 4 files are not read, the first cat/b.heic: .txt 2, .heic 1, .csv 1; images end in .jpg, .jpeg, "
            ".png, .bmp, .gif, .webp, .tif, .tiff, .pgm, .ppm",
        ]
        assert len(data.train) == 3


@pytest.mark.parametrize("kind", ["BMP", "GIF", "WEBP", "TIFF", "PPM", "PNG"])
def test_every_common_format_is_read(tmp_path: Path, kind: str) -> None:
    ending = {"TIFF": ".Tif"}.get(kind, f".{kind.lower()}")
    lossless = {"lossless": True} if kind == "WEBP" else {}
    content = encoded(Image.new("RGB", (2, 2), BLUE), kind, **lossless)
    data = images(folder(tmp_path / "pets", {f"cat/a{ending}": content, "dog/b.png": png(RED)}), size=2)
    assert data.columns["x"][:, 0, 0].tolist() == [list(BLUE), list(RED)]
    assert data.note == ""


def test_a_file_of_several_pictures_or_of_floats_is_unreadable(tmp_path: Path) -> None:
    page = Image.new("L", (2, 2), 9)
    pages = encoded(page, "TIFF", save_all=True, append_images=[Image.new("L", (2, 2), 99)])
    with pytest.raises(DataError, match=r"a\.tif cannot be read \(it holds 2 pictures, and only one can be an example"):
        images(folder(tmp_path / "pages", {"cat/a.tif": pages}), size=2)
    floats = encoded(Image.fromarray(np.full((2, 2), 0.5, np.float32)), "TIFF")
    with pytest.raises(DataError, match=r"its pixels are floating-point numbers of no declared range"):
        images(folder(tmp_path / "floats", {"cat/a.tif": floats}), size=2)


def deep(*values: int, kind: str = "PNG") -> bytes:
    return encoded(Image.fromarray(np.array([values] * len(values), np.uint16)), kind)


@pytest.mark.parametrize(
    ("files", "shades", "bits"),
    [
        ({"cat/a.png": deep(0), "cat/b.png": deep(128), "dog/c.png": deep(255)}, [0, 128, 255], 8),
        ({"cat/a.png": deep(0), "cat/b.png": deep(2048), "dog/c.png": deep(4095)}, [0, 128, 255], 12),
        ({"cat/a.png": deep(200), "dog/c.tif": deep(3000, kind="TIFF")}, [12, 187], 12),
        ({"cat/a.png": deep(257), "cat/b.png": deep(0x80FF), "dog/c.png": deep(65_535)}, [1, 128, 255], 16),
    ],
)
def test_deep_greys_have_the_range_of_the_whole_data_set(
    tmp_path: Path, files: dict[str, bytes], shades: list[int], bits: int
) -> None:
    path = folder(tmp_path / "scans", files)
    note = f"grey images of more than 8 bits are read as {bits} bits: 0 to {2**bits - 1:,}"
    for grey in (True, False):
        with warnings.catch_warnings(record=True) as issued:
            warnings.simplefilter("always")
            data = images(path, size=1, grey=grey)
        assert data.columns["x"].reshape(len(files), -1).max(axis=1).tolist() == shades
        assert data.note == note
        assert [note in str(one.message) for one in issued] == [True] * (bits < 16)


def test_one_bright_pixel_counts_though_it_is_averaged_away(tmp_path: Path) -> None:
    values = np.full((64, 64), 500, np.uint16)
    values[0, 0] = 4000
    scan = encoded(Image.fromarray(values), "PNG")
    with pytest.warns(FedloomWarning, match="read as 12 bits: 0 to 4,095"):
        data = images(folder(tmp_path / "scans", {"cat/a.png": scan}), size=2, grey=True)
    assert data.columns["x"][0, 1, 1] == 31  # 500 · 255 / 4,095


def test_a_tiff_file_declares_its_bits(tmp_path: Path) -> None:
    header = b"II*\0" + (8).to_bytes(4, "little")
    tags = {256: 2, 257: 2, 258: 12, 259: 1, 262: 1, 273: 8 + 2 + 9 * 12 + 4, 277: 1, 278: 2, 279: 6}
    entries = b"".join(t.to_bytes(2, "little") + b"\4\0\1\0\0\0" + v.to_bytes(4, "little") for t, v in tags.items())
    packed = bytes([0x20, 0x00, 0x00] * 2)  # two rows of the values 0x200 = 512 and 0, of 12 bits each
    content = header + len(tags).to_bytes(2, "little") + entries + bytes(4) + packed
    with pytest.warns(FedloomWarning, match="read as 12 bits: 0 to 4,095"):  # 512 alone would need 10
        data = images(folder(tmp_path / "scans", {"cat/a.tif": content}), size=2, grey=True)
    assert data.columns["x"][0].tolist() == [[32, 0], [32, 0]]


def colour16(most: int) -> bytes:
    """A PNG file of one pixel with three channels of 16 bits."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return len(body).to_bytes(4) + name + body + zlib.crc32(name + body).to_bytes(4)

    shape = (1).to_bytes(4) * 2 + bytes([16, 2, 0, 0, 0])
    pixel = zlib.compress(b"\0" + most.to_bytes(2) + bytes(4))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", shape) + chunk(b"IDAT", pixel) + chunk(b"IEND", b"")


def test_dark_colours_of_16_bits_are_refused(tmp_path: Path) -> None:
    dark, bright = {"cat/a.png": colour16(4095)}, {"dog/b.png": colour16(65_535)}
    with pytest.raises(DataError, match=r"no value above 16,383 of 65,535, the first being cat/a\.png: they would"):
        images(folder(tmp_path / "dark", dark), size=1)
    assert images(folder(tmp_path / "both", dark | bright), size=1).columns["x"][:, 0, 0, 0].tolist() == [15, 255]


def test_classes_that_are_numbers_are_sorted_as_numbers(tmp_path: Path) -> None:
    shades = {"10": RED, "2": GREEN, "9": BLUE}
    path = folder(tmp_path / "digits", {f"{name}/a.png": png(colour) for name, colour in shades.items()})
    data = images(path, size=1)
    assert data.class_names == ("2", "9", "10")
    named = {data.class_names[y]: tuple(x[0, 0]) for x, y in zip(data.columns["x"], data.columns["y"], strict=True)}
    assert named == shades
    arrays = from_arrays("digits", {"x": np.zeros((3, 1)), "y": np.array(["10", "2", "9"])})
    assert (arrays.class_names, arrays.columns["y"].tolist()) == (("2", "9", "10"), [2, 0, 1])


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (("train/a.png", "test/b.png"), r"has no class folders in test, train: put the images of each class"),
        (("train/cat/a.png", "test/cat/b.png", "more/c.png"), r"has the folders test, train, .* beside more: move"),
    ],
)
def test_folders_of_parts_do_not_become_classes(tmp_path: Path, files: tuple[str, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        images(folder(tmp_path / "pets", dict.fromkeys(files, png())), size=1)


def test_one_loose_image_does_not_make_classes_of_train_and_test(tmp_path: Path) -> None:
    files = dict.fromkeys(("train/cat/a.png", "train/dog/a.png", "test/cat/b.png", "test/c.png"), png())
    with pytest.warns(FedloomWarning, match=r"1 image is not read, the first test/c\.png: outside the class folders"):
        data = images(folder(tmp_path / "pets", files), size=1)
    assert (data.class_names, len(data.train), len(data.test)) == (("cat", "dog"), 2, 1)


def test_in_the_data_folder(tmp_path: Path) -> None:
    folder(tmp_path / "data" / "pets", FILES)
    assert len(images("pets", folder=tmp_path / "data").train) == 3


def test_names_in_an_archive_lead_nowhere(tmp_path: Path) -> None:
    files = {"../evil/a.png": png(GREEN), "/cat/a.png": png(RED), "cat/../b.png": png(GREEN)}  # the dots are hidden
    data = images(tar(tmp_path / "a.tar", files), size=1)
    assert data.class_names == ("cat",)
    assert data.columns["x"].tolist() == [[[list(RED)]]]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar", "cache"]


def test_the_last_of_two_members_of_one_name_counts(tmp_path: Path) -> None:
    path = tar(tmp_path / "a.tar", {"cat/a.png": png(RED)})
    with tarfile.open(path, "a") as archive:
        member = tarfile.TarInfo("./cat/a.png")
        member.size = len(png(BLUE))
        archive.addfile(member, io.BytesIO(png(BLUE)))
        link = tarfile.TarInfo("cat/link.png")
        link.type, link.linkname = tarfile.SYMTYPE, "a.png"
        archive.addfile(link)
    with pytest.warns(FedloomWarning, match=r"1 file is not read, the first cat/link\.png: links or devices"):
        assert images(path, size=1).columns["x"].tolist() == [[[list(BLUE)]]]


def test_the_middle_square_is_kept() -> None:
    image = Image.new("RGB", (8, 4), RED)
    image.paste(GREEN, (2, 0, 6, 4))
    file = io.BytesIO()
    image.save(file, "PNG")
    assert (decoded(file.getvalue(), 4, grey=False) == GREEN).all()
    grey = decoded(file.getvalue(), 4, grey=True)
    assert (grey.shape, grey[0, 0]) == ((4, 4), round(0.587 * 255))


def test_a_photo_is_turned_upright() -> None:
    image = Image.new("RGB", (64, 64), RED)
    image.paste(BLUE, (0, 0, 64, 32))  # blue above; 6: the camera was turned, and left must become up
    exif = Image.Exif()
    exif[0x0112] = 6
    file = io.BytesIO()
    image.save(file, "JPEG", exif=exif, quality=95)
    pixels = decoded(file.getvalue(), 8, grey=False).astype(int)
    assert (pixels[:, 6:, 2] > 200).all()  # turned clockwise, what was above is right
    assert (pixels[:, :2, 0] > 200).all()


def test_a_big_photo_is_decoded_small(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.BytesIO()
    Image.new("RGB", (800, 400), RED).save(file, "JPEG")
    seen = []
    monkeypatch.setattr(source, "plain", lambda image, mode: seen.append(image.size) or plain(image, mode))
    assert decoded(file.getvalue(), 16, grey=False).shape == (16, 16, 3)
    assert seen == [(100, 50)]


def test_palettes_transparency_inks_and_deep_greys() -> None:
    half = Image.new("RGBA", (1, 1), (0, 0, 0, 51))
    assert plain(half, "RGB").getpixel((0, 0)) == (204, 204, 204)
    palette = Image.new("RGB", (1, 1), BLUE).quantize(2)
    assert plain(palette, "RGB").getpixel((0, 0)) == BLUE
    palette.info["transparency"] = bytes(2)
    assert plain(palette, "RGB").getpixel((0, 0)) == (255, 255, 255)
    assert plain(Image.new("CMYK", (1, 1), (0, 255, 255, 0)), "RGB").getpixel((0, 0)) == RED
    assert decoded(deep(0x80FF), 1, grey=True).tolist() == [[0x80]]


def test_the_second_time_nothing_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [maker(tmp_path / name, FILES) for name, maker in MAKERS.items()]
    first = [images(path, size=3) for path in paths]

    def never(*_: object) -> None:
        raise AssertionError("decoded again")

    monkeypatch.setattr(source, "read_square", never)
    for path, before in zip(paths, first, strict=True):
        again = images(path, size=3)
        assert isinstance(again.columns["x"], np.memmap)
        assert not again.columns["x"].flags.writeable
        assert again.columns["x"].tolist() == before.columns["x"].tolist()
        assert again.class_names == before.class_names


def test_whatever_changes_the_result_changes_the_cache(tmp_path: Path, cache: Path) -> None:
    path = folder(tmp_path / "pets", FILES | {"dog/a.png": png(RED).ljust(200, b"\0")})
    images(path, size=2)
    assert images(path, size=3).columns["x"].shape == (3, 3, 3, 3)
    assert images(path, size=2, grey=True).columns["x"].shape == (3, 2, 2)
    (path / "dog" / "a.png").write_bytes(png(BLUE).ljust(200, b"\0"))  # as long as before
    os.utime(path / "dog" / "a.png", ns=(0, 10**18))
    assert images(path, size=2).columns["x"][1, 0, 0].tolist() == list(BLUE)
    (path / "dog" / "a.png").rename(path / "dog" / "z.png")
    assert images(path, size=2).columns["x"][1:, 0, 0].tolist() == [list(GREEN), list(BLUE)]
    assert len(list(cache.glob("*.npy"))) == 5


def broken(tmp_path: Path) -> Path:
    return folder(tmp_path / "pets", FILES | {"dog/aa.jpg": b"no image", "cat/z.png": png(RED, (60, 40))[:-30]})


def test_an_unreadable_image_stops(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(DataError, match=r"the image cat/z\.png cannot be read \(.*\): .*skip=True"):
        images(broken(tmp_path))
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("name", MAKERS)
def test_unreadable_images_are_left_out(tmp_path: Path, name: str) -> None:
    files = FILES | {"dog/aa.jpg": b"no image", "cat/z.png": png(RED, (60, 40))[:-30]}
    path = MAKERS[name](tmp_path / name, files)
    for _ in range(2):  # the second time from the cache
        with pytest.warns(FedloomWarning, match=r"pets: 2 unreadable images are left out, the first cat/z\.png \("):
            data = images(path, size=2, skip=True)
        assert data.note == "2 unreadable images are left out, the first cat/z.png"
        assert data.columns["x"][:, 0, 0].tolist() == [list(colour) for colour in PIXELS]
        assert data.columns["y"].tolist() == [0, 1, 1]
        with pytest.raises(DataError, match=r"the image cat/z\.png cannot be read"):
            images(path, size=2)


def test_a_link_to_nothing_is_unreadable(tmp_path: Path) -> None:
    path = folder(tmp_path / "pets", FILES)
    (path / "cat" / "b.jpg").symlink_to(tmp_path / "nothing")
    (path / "more").symlink_to(path / "dog")
    with pytest.warns(FedloomWarning, match="1 unreadable image is left out"):
        data = images(path, skip=True)
    assert data.note == "1 unreadable image is left out, the first cat/b.jpg"
    assert (data.class_names, data.columns["y"].tolist()) == (("cat", "dog", "more"), [0, 1, 1, 2, 2])


def test_a_class_with_nothing_readable(tmp_path: Path, cache: Path) -> None:
    path = folder(tmp_path / "pets", {"cat/a.png": png(), "dog/b.png": b"", "dog/c.png": b""})
    with pytest.raises(DataError, match=r"no image in the class folder dog .* dog/b\.png \(it holds no image\)"):
        images(path, skip=True)
    assert list(cache.iterdir()) == []


def test_a_kill_midway_leaves_nothing_to_be_found(tmp_path: Path, cache: Path) -> None:
    path = folder(tmp_path / "pets", FILES)
    script = (
        "import os, sys\nfrom fedloom.data.sources import images as source\nreal = source.read_square\n"
        "def kill(content, size, grey):\n"
        "    return os.kill(os.getpid(), 9) if content.name == 'b.png' else real(content, size, grey)\n"
        "source.read_square = kill\nsource.images(sys.argv[1], size=2)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], timeout=60, check=False)
    assert done.returncode == -9
    assert [file.name[:5] for file in cache.iterdir()] == [".pets"]  # only the temporary file
    assert images(path, size=2).columns["x"][:, 0, 0].tolist() == [list(colour) for colour in PIXELS]


def test_the_labels_are_there_before_the_pixels(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder(tmp_path / "pets", FILES)
    monkeypatch.setattr(json, "dumps", lambda told, dumps=json.dumps: 1 / 0 if "counts" in told else dumps(told))
    with pytest.raises(ZeroDivisionError):
        images(path)
    assert list(cache.iterdir()) == []


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source.shutil, "disk_usage", lambda _: SimpleNamespace(free=11))
    with pytest.raises(DataError, match=r"need 36 bytes in .*, which has 11 left"):
        images(folder(tmp_path / "pets", FILES), size=2)


@pytest.mark.parametrize("name", [name for name in MAKERS if name != "pets"])
def test_a_damaged_archive(tmp_path: Path, name: str) -> None:
    path = MAKERS[name](tmp_path / name, FILES)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DataError, match=f"{name} is damaged"):
        images(path)


def test_a_zip_with_a_flipped_byte(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", FILES)
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"IDAT") + 6] ^= 1
    path.write_bytes(raw)
    with pytest.raises(DataError, match=r"a\.zip is damaged.*CRC"):
        images(path)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.png": png()}, "has no class folders"),
        ({"cat/a.heic": b"", "dog/b.txt": b""}, r"has no images in its class folders: .* \.jpg, \.jpeg, \.png"),
        ({"cat/a.png": png(), "dog/b.txt": b""}, "the class folder dog in .* has no images"),
    ],
)
@pytest.mark.parametrize("name", MAKERS)
def test_no_classes_or_images(tmp_path: Path, files: dict[str, bytes], message: str, name: str) -> None:
    with pytest.raises(DataError, match=message):
        images(MAKERS[name](tmp_path / name, files))


def test_what_is_no_directory(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere is neither here nor in the data folder"):
        images("nowhere", folder=tmp_path)
    (tmp_path / "pets.rar").write_bytes(b"")
    with pytest.raises(DataError, match=r"neither a directory nor an archive: its name must end in \.tar, "):
        images(tmp_path / "pets.rar")
    with pytest.raises(ArgumentError, match="size must be at least 1, but is 0"):
        images(tmp_path, size=0)


def test_cats_and_dogs(data_folder: Path) -> None:
    archive = data_folder / "cats-dogs" / "thumbs96.tar"
    if not archive.exists():
        pytest.skip(f"{archive} is not there")
    data = images(archive, size=16, grey=True)
    assert (data.name, data.class_names, data.note) == ("thumbs96", ("cat", "dog"), "")
    assert np.bincount(data.columns["y"]).tolist() == [700, 699]
    assert data.columns["x"].shape == (1399, 16, 16)
    assert 100 < data.columns["x"].mean() < 130
    with tarfile.open(archive) as file, Image.open(file.extractfile("cat/cat.10.jpg")) as image:  # type: ignore[arg-type]
        side = min(image.size)
        left, top = (image.width - side) / 2, (image.height - side) / 2
        square = image.convert("L").resize((16, 16), Image.Resampling.BICUBIC, (left, top, left + side, top + side))
    assert np.abs(data.columns["x"][2].astype(int) - np.asarray(square)).max() <= 6  # third by name; 6: decoded small


def test_train_and_test_folders_are_parts(tmp_path: Path) -> None:
    for part, many in (("train", 3), ("test", 2), ("Val", 1)):
        for kind, shade in (("cat", 10), ("dog", 200)):
            folder = tmp_path / "pets" / part / kind
            folder.mkdir(parents=True)
            for i in range(many):
                Image.new("RGB", (4, 4), (shade, 0, 0)).save(folder / f"{i}.png")
    data = images(tmp_path / "pets", size=4)
    assert data.class_names == ("cat", "dog")
    assert (len(data.train), len(data.validation), len(data.test)) == (6, 2, 4)
    for rows in (data.train, data.validation, data.test):
        assert (data.columns["x"][rows, 0, 0, 0] == np.where(data.columns["y"][rows] == 1, 200, 10)).all()
