import pytest

pytestmark = pytest.mark.tff
