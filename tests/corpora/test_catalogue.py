"""The catalogue: complete for the paper, true to the files at hand."""

import hashlib
import re

import pytest

from zgul.corpora import catalogue
from zgul.errors import ZgulError
from zgul.files import open_binary
from zgul.languages import GROUPS


def test_names_are_unique_and_every_entry_is_complete():
    names = [dataset.name for dataset in catalogue.DATASETS]
    assert len(set(names)) == len(names)
    for dataset in catalogue.DATASETS:
        assert dataset.licence and dataset.release
        assert dataset.homepage.startswith("https://")
        assert dataset.files or dataset.note
        for file in dataset.files:
            assert re.fullmatch(r"[\w./-]+", file.path)
            assert ".." not in file.path


@pytest.mark.parametrize("name", GROUPS)
def test_every_language_of_a_group_has_its_data(name):
    group = GROUPS[name]
    listed = catalogue.select(group=name)
    assert {d.language for d in listed if d.role == "source"} == set(group.sources)
    assert {d.language for d in listed if d.role == "target"} == set(group.targets)
    assert {d.task for d in listed} == {group.task}
    for dataset in listed:
        splits = {file.split.removeprefix("panx.") for file in dataset.files}
        if dataset.role == "target":
            assert "test" in splits and "train" not in splits  # a target is never trained on by mistake
        elif dataset.files:
            assert splits == {"train", "dev"}


def test_real_addresses():
    (faroese,) = catalogue.find("ud/fo_oft")
    assert f"{faroese.host}/{faroese.files[0].path}" == (
        "https://raw.githubusercontent.com/UniversalDependencies/UD_Faroese-OFT/r2.5/fo_oft-ud-test.conllu"
    )
    (assamese,) = catalogue.find("wikiann/as")
    assert f"{assamese.host}/{assamese.files[0].path}" == (
        "https://s3.amazonaws.com/datasets.huggingface.co/wikiann/1.1.0/panx_dataset.zip"
    )
    assert {file.member for file in assamese.files} == {"as.tar.gz/train", "as.tar.gz/dev", "as.tar.gz/test"}


def test_every_target_file_that_the_paper_tests_on_has_a_checksum():
    for dataset in catalogue.DATASETS:
        for file in dataset.files:
            if file.split == "test":
                assert file.sha256 and re.fullmatch("[0-9a-f]{64}", file.sha256), file.path


def test_no_checksum_without_a_use():
    used = {file.path for dataset in catalogue.DATASETS for file in dataset.files}
    newer = {path for path in catalogue.CHECKSUMS if path not in used}
    assert all(re.search(r"/r2\.1[5-7]/", path) for path in newer)


@pytest.mark.parametrize(
    ("name", "release", "file"),
    [
        ("ud/de_gsd", "r2.16", "de_gsd-ud-dev.conllu"),
        ("ud/en_ewt", "2.16", "en_ewt-ud-dev.conllu"),
        ("ud/fo_oft", "r2.17", "fo_oft-ud-test.conllu"),
        ("ud/got_proiel", "r2.16", "got_proiel-ud-test.conllu"),
        ("ud/gsw_uzh", "r2.15", "gsw_uzh-ud-test.conllu"),
        ("ud/hsb_ufal", "r2.17", "hsb_ufal-ud-test.conllu"),
        ("ud/qpm_philotis", "r2.17", "qpm_philotis-ud-test.conllu"),
    ],
)
def test_checksums_agree_with_the_real_files(shared_data, name, release, file):
    (dataset,) = catalogue.find(name)
    newer = catalogue.at_release(dataset, release)
    (listed,) = [f for f in newer.files if f.path.endswith(file)]
    with open_binary(shared_data / "conllu" / f"{file}.xz") as stream:
        assert hashlib.sha256(stream.read()).hexdigest() == listed.sha256


def test_select_narrows_down():
    assert [d.name for d in catalogue.select(group="Indo-Aryan", language="bho")] == ["wikiann/bh"]
    assert all(d.task == "ner" for d in catalogue.select(task="ner"))
    assert catalogue.select(task="pos", language="sw") == []


@pytest.mark.parametrize(
    ("options", "hint"), [({"group": "uralic"}, "germanic, indo-aryan"), ({"task": "srl"}, "pos or ner")]
)
def test_select_says_what_there_is(options, hint):
    with pytest.raises(ZgulError, match=hint):
        catalogue.select(**options)


def test_find_takes_patterns_and_suggests():
    assert len(catalogue.find("masakhaner/*")) == 9
    assert [d.name for d in catalogue.find("UD/FO_OFT")] == ["ud/fo_oft"]
    with pytest.raises(ZgulError, match="Did you mean ud/fo_oft"):
        catalogue.find("ud/fo_ofd")
    with pytest.raises(ZgulError, match="zgul data list"):
        catalogue.find("???????????????????")


def test_only_treebanks_have_other_releases():
    (hausa,) = catalogue.find("masakhaner/hau")
    with pytest.raises(ZgulError, match="only one release"):
        catalogue.at_release(hausa, "r2.17")
