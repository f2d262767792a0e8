"""A fixture for tests of the report: import it, and the page's weather is not drawn."""

import pytest
from PIL import Image

from dsacc.views.report import gallery


@pytest.fixture(scope="module", autouse=True)
def quick_pictures():
    """A white picture instead of the weather, which takes seconds per game. The test of the demo has the real one."""

    def preview(envs, out, *, plain, **how):
        out.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (400, 120), "white").save(out)
        Image.new("RGBA", (400, 120), "white").save(plain)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gallery, "preview", preview)
        yield
