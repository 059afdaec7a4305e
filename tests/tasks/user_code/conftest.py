import pytest

pytestmark = pytest.mark.pure
