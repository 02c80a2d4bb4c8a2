"""Shape: everything about a convolution that its kernels are generated for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """A two-dimensional convolution of float32 images.

    Args:
        batch: the images, a multiple of the vector width.
        channels: input and output channels.
        image: height and width of an image.
        kernel: height and width of the kernel.
        strides: vertical and horizontal.
        padding: above and left of an image; negative padding crops.
        output: height and width of the result.
        dilation: vertical and horizontal.
        groups: into how many groups channels fall.
    """

    batch: int
    channels: tuple[int, int]
    image: tuple[int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int]
    output: tuple[int, int]
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1

    @property
    def inputs(self) -> int:
        """Return the input channels of a group."""
        return self.channels[0] // self.groups

    @property
    def outputs(self) -> int:
        """Return the output channels of a group."""
        return self.channels[1] // self.groups

    def source(self, axis: int, place: int, tap: int) -> int | None:
        """Return the pixel that a place of the result reads through a tap of the kernel; None outside the image."""
        at = place * self.strides[axis] + tap * self.dilation[axis] - self.padding[axis]
        return at if 0 <= at < self.image[axis] else None

    def reader(self, axis: int, pixel: int, tap: int) -> int | None:
        """Return the place of the result that reads a pixel through a tap of the kernel; None if there is none."""
        at = pixel + self.padding[axis] - tap * self.dilation[axis]
        place = at // self.strides[axis]
        return place if at % self.strides[axis] == 0 and 0 <= place < self.output[axis] else None

    @property
    def flops(self) -> int:
        """Return the multiplications and additions of the forward pass, without those of padding."""
        taps = 1
        for axis in (0, 1):
            taps *= sum(self.source(axis, place, tap) is not None
                        for place in range(self.output[axis]) for tap in range(self.kernel[axis]))  # fmt: skip
        return 2 * self.batch * self.channels[1] * self.inputs * taps

    def __str__(self) -> str:
        numbers = (self.batch, *self.channels, *self.image, *self.kernel, *self.strides, *self.padding, *self.output,
                   *self.dilation, self.groups)  # fmt: skip
        return "_".join(str(n).replace("-", "m") for n in numbers)
