"""Shape: everything about a convolution that its kernels are generated for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """A two-dimensional convolution of float32 images.

    Args:
        batch: the images.
        channels: input and output channels.
        image: height and width of an image.
        kernel: height and width of the kernel.
        strides: vertical and horizontal.
        padding: above and left of an image; negative padding crops.
        output: height and width of the result.
        dilation: vertical and horizontal.
        groups: into how many groups channels fall.
        order: the axes of the weights: h and w of the kernel, i for the inputs of a group, o for the outputs.
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
    order: str = "hwio"

    @property
    def inputs(self) -> int:
        """Return the input channels of a group."""
        return self.channels[0] // self.groups

    @property
    def outputs(self) -> int:
        """Return the output channels of a group."""
        return self.channels[1] // self.groups

    @property
    def weights(self) -> tuple[int, ...]:
        """Return the shape of the array of weights."""
        sizes = {"h": self.kernel[0], "w": self.kernel[1], "i": self.inputs, "o": self.channels[1]}
        return tuple(sizes[axis] for axis in self.order)

    @property
    def steps(self) -> dict[str, int]:
        """Return the distance in memory between neighbours along each axis of the weights, and between groups.

        >>> Shape(1, (4, 6), (8, 8), (3, 3), (1, 1), (1, 1), (8, 8), groups=2).steps
        {'o': 1, 'i': 6, 'w': 12, 'h': 36, 'g': 3}
        """
        found, step = dict[str, int](), 1
        for axis, size in zip(self.order[::-1], self.weights[::-1], strict=True):
            found[axis] = step
            step *= size
        return found | {"g": self.outputs * found["o"]}

    @property
    def flops(self) -> int:
        """Return the multiplications and additions of the forward pass, without those of padding."""
        taps = 1
        for axis in (0, 1):
            reads = [self.strides[axis] * place + self.dilation[axis] * tap - self.padding[axis]
                     for place in range(self.output[axis]) for tap in range(self.kernel[axis])]  # fmt: skip
            taps *= sum(0 <= at < self.image[axis] for at in reads)
        return 2 * self.batch * self.channels[1] * self.inputs * taps

    def __str__(self) -> str:
        numbers = (self.batch, *self.channels, *self.image, *self.kernel, *self.strides, *self.padding, *self.output,
                   *self.dilation, self.groups, self.order)  # fmt: skip
        return "_".join(str(n).replace("-", "m") for n in numbers)
