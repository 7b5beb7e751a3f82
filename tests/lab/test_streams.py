"""The streams of a race: rows of a table shuffled for each repeat, synthetic data drawn anew."""

import numpy as np
import pytest

from onebit.lab.streams import load, streams


def test_each_repeat_of_a_table_has_its_own_order():
    title, about, made = streams("iris", None, 3, 5)
    assert title == "iris" and about.startswith("150 flowers")
    for stream in made:
        assert sorted(stream.order.tolist()) == list(range(150)) and stream.rounds == 150
        assert stream.table == 150 and stream.labels == 3
    orders = {tuple(stream.order.tolist()) for stream in made}
    assert len(orders) == 3
    again = streams("iris", None, 1, 6)[2][0]  # the seed counts on from repeat to repeat
    assert tuple(again.order.tolist()) == tuple(made[1].order.tolist())


def test_with_more_rounds_than_rows_every_row_comes_again_shuffled_anew():
    _, _, (stream,) = streams("iris", 200, 1, 0)
    assert stream.rounds == 200
    assert sorted(stream.order[:150].tolist()) == list(range(150))
    assert len(set(stream.order[150:].tolist())) == 50
    assert stream.order[150:].tolist() != stream.order[:50].tolist()


def test_synthetic_data_are_drawn_anew_for_each_repeat():
    _, _, made = streams("synsep", 30, 2, 0)
    assert [stream.simulated_order for stream in made] == ["given", "given"]
    assert [stream.table for stream in made] == [None, None]
    assert made[0].rows.indices.tolist() != made[1].rows.indices.tolist()
    assert made[0].comparator is not None and (made[0].y == load("synsep", rows=30).y).all()


def test_steps_that_depend_on_the_order_see_the_rows_in_the_order_of_the_rounds():
    _, _, made = streams("iris", None, 2, 0, prepare=["standardise"])
    for stream in made:
        assert stream.simulated_order == "given" and stream.rounds == 150
        assert stream.rows.indptr[1] == 0  # the first row of a run is 0 in all columns
    assert not np.array_equal(made[0].y, made[1].y)


def test_a_single_label_is_refused(tmp_path):
    path = tmp_path / "one.csv"
    path.write_text("a,label\n1,x\n2,x\n")
    with pytest.raises(ValueError, match="all rows have the label 'x'"):
        load(str(path))
