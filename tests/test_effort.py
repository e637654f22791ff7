"""What `make test` leaves out, it leaves out of tests with many cases, and of each of them it makes some."""

from tests.effort import shared_out


def test_of_many_cases_there_is_every_sixth():
    cases = [f"tests/test_a.py::test_many[{number}]" for number in range(8)]
    assert shared_out(cases) == {cases[number] for number in (1, 2, 3, 4, 5, 7)}


def test_a_test_with_few_cases_or_none_is_made():
    assert not shared_out(
        ["tests/test_a.py::test_one", *(f"tests/test_a.py::test_few[{number}]" for number in range(3))]
    )


def test_each_test_is_one_by_itself_wherever_its_cases_stand():
    names = [f"tests/{file}.py::test_many[{number}]" for number in range(7) for file in ("test_a", "test_b")]
    out = shared_out(names)
    assert {name for name in names if name not in out} == {
        f"tests/{file}.py::test_many[{number}]" for number in (0, 6) for file in ("test_a", "test_b")
    }
