import pytest

pytestmark = pytest.mark.program
