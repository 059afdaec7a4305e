import pytest

from tasks.conversions.plays import Plays
from tests.refusals import refused

_PLAY = """First Citizen:
Before we proceed, hear me speak.
Still: more.

All:
Speak, speak.

[They fight]

First Citizen:
You are all resolved?

First Citizen:

"""


@pytest.fixture
def play(tmp_path):
  def write(text=_PLAY, name="rome.txt"):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path

  return write


def _speeches(found, split, client):
  return [b"".join(features["snippets"]) for features in found[split][client]]


def test_speeches_by_speaker(play, convert):
  plays = Plays([play()])
  found = convert(plays.examples())
  assert _speeches(found, "train", "First_Citizen") == [
    b"Before we proceed, hear me speak.\nStill: more."
  ]
  assert _speeches(found, "test", "First_Citizen") == [b"You are all resolved?"]
  assert "All" not in found["train"]  # One speech cannot be split.
  assert plays.left_out == {"without a speaker": 1, "without a speech": 1}


def test_roles_of_several_plays_are_apart(play, convert):
  paths = [play(), play("\ufeff" + _PLAY.replace("\n", "\r\n"), "A B.txt")]
  found = convert(Plays(paths).examples())
  assert found["train"].keys() == {"rome_First_Citizen", "A_B_First_Citizen"}
  assert _speeches(found, "test", "A_B_First_Citizen") == [
    b"You are all resolved?"
  ]


def test_not_utf_8(play):
  path = play(_PLAY.encode().replace(b"fight", b"f\xe9te"))
  with refused("rome.txt, line 8, byte 8", "UTF-8"):
    list(Plays([path]).examples())


@pytest.mark.parametrize("text", ["", "\n\n", "Some prose.\n", "a: b\nc\n"])
def test_no_speakers(play, text):
  with refused("rome.txt", "First Citizen:"):
    list(Plays([play(text)]).examples())


def test_two_plays_of_one_name(play):
  with refused("x/rome.txt.gz", "rome.txt"):
    Plays([play(), play(name="x/rome.txt.gz")])
