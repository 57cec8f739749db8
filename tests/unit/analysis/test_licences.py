from live_eval.analysis.licences import licence_of, licences_of


def test_different_licences_are_named_once() -> None:
    notes = ["Under A.", "Under B", "Under A"]  # earlier versions stored a full stop
    manifests = [{"data": {"licence": note}} for note in notes]
    assert licences_of([{}, *manifests]) == ("Under A", "Under B")


def test_damaged_manifests_have_no_licence() -> None:
    assert licence_of({"data": {"licence": 3}}) == licence_of({"data": None}) == ""
