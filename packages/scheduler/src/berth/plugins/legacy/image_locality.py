"""ImageLocality of v1.20: only the images of regular containers count."""

from typing import ClassVar, final

from berth.api.pod import PodSpec
from berth.framework.promises import Promises
from berth.plugins.image_locality import ImageLocality, normalized_image_name


@final
class LegacyImageLocality(ImageLocality):
    """Score."""

    name: ClassVar[str] = "ImageLocality"
    promises: ClassVar[Promises] = ImageLocality.promises

    __slots__ = ()

    def _wanted(self, spec: PodSpec) -> tuple[tuple[str, ...], int]:
        return tuple(sorted(normalized_image_name(each.image) for each in spec.containers)), len(spec.containers)
