import pytest

from curate.errors import CurateError
from curate.recipe import EvaluationSetConfig, from_table, to_table
from curate.recipes.reader import list_bundled_recipes, read_recipe, read_recipe_text

SOURCE = '[[sources]]\nname = "taco"\nlocation = "raw/taco"\n'
WHOLE = (
    'packages = ["networkx"]\n'
    + SOURCE
    + 'files = "*.parquet"\n[sources.fields]\nstatement = "prompt"\n'
    + '[[sources]]\nname = "livecodebench"\nlocation = "owner/name@abc"\nfrom = 2024-08-01\n'
    + '[build]\nmin_tests = 3\nreference_languages = ["python", "cpp"]\nmin_test_strength = 0.5\n'
    + '[[against]]\nname = "humaneval"\nlocation = "eval.jsonl"\n'
    + '[[against]]\nname = "lcb"\nwindow = "2024-08-01..2025-01-31"\n'
    + '[difficulty]\nmodels = ["m"]\nband = "0.125:0.5"\ntemperature = 1\n'
    + '[difficulty.prompt]\nsystem = "Think."\n[difficulty.engine]\ntensor_parallel = 2\n'
    + '[filter]\nwhere = ["solve_rate(\'m\') > 0.2", "n_tests > 5"]\n'
    + "[split]\nvalidation = 200\ntest = 0.1\n"
    + '[[exports]]\nto = "trl"\n[[exports]]\nto = "trl"\nname = "all"\nselect = "all"\ninclude = ["unverified"]\n'
)


def written(folder, text):
    path = folder / "recipe.toml"
    path.write_text(text)
    return str(path)


def test_a_recipe_is_read_and_can_be_written_back(tmp_path):
    (tmp_path / "raw" / "taco").mkdir(parents=True)
    recipe = read_recipe(written(tmp_path, WHOLE))
    first, second = recipe.sources
    assert first.location == str(tmp_path / "raw/taco")  # relative to the file
    assert first.options == {"files": "*.parquet", "fields": {"statement": "prompt"}}
    assert (second.location, second.options) == ("owner/name@abc", {"from": "2024-08-01"})
    assert [item.argument for item in recipe.against] == [
        f"humaneval={tmp_path / 'eval.jsonl'}",
        "lcb:2024-08-01..2025-01-31",
    ]
    assert (recipe.build.min_tests, recipe.build.tries) == (3, 8)
    assert recipe.difficulty.engine == {"tensor_parallel": 2}
    assert recipe.split.sizes == {"validation": 200, "test": 0.1}
    assert [export.name for export in recipe.exports] == ["", "all"]
    assert from_table(to_table(recipe)) == recipe


def test_a_recipe_may_begin_with_a_byte_order_mark(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(SOURCE, encoding="utf-8-sig")
    assert [source.name for source in read_recipe(str(path)).sources] == ["taco"]
    assert read_recipe_text(str(path)) == SOURCE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            SOURCE + "[build]\nmin_test = 3",
            "line 5: unknown key min_test in [build]. Did you mean min_tests? Known are",
        ),
        (
            SOURCE + "[buid]\nmin_tests = 3",
            "line 4: unknown key buid in a recipe. Did you mean build? Known are sources",
        ),
        (SOURCE + '[[exports]]\nto = "trl"\n\n[[exports]]\ntoo = "trl"', "line 8: unknown key too in [exports]."),
        (SOURCE + "[difficulty.engin]\na = 1", "line 4: unknown key engin in [difficulty]. Did you mean engine?"),
        (SOURCE + "[build]\nmin_tests = '3'", "build.min_tests: expected int, not str"),
        (SOURCE + "[build]\ndedup = 0", "dedup must be above 0"),
        (SOURCE + "[build]\nreference_languages = ['cobol']", "cobol"),
        (SOURCE + "[filter]\nwhere = ['n_test > 3']", "[filter]: condition n_test > 3: column 1: unknown name n_test."),
        (
            SOURCE + "[filter]\nwhere = ['solve_rate() > 0']",
            "[filter]: condition solve_rate() > 0: column 1: pass the model's name",
        ),
        (SOURCE + "[filter]\nwhere = []", "[filter]: where must have at least one condition"),
        (SOURCE + "[split]\nvalidation = 1.5", "[split]: 1.5 is neither a share"),
        (SOURCE + "[split]\nseed = 1", "[split]: give validation, test or both"),
        (SOURCE + "[split]\ntest = 9\nsimilarity = 0", "similarity must be above 0 and at most 1, not 0.0"),
        (
            SOURCE + "[difficulty]\nmodels = ['m']\nband = '1:0'",
            "[difficulty]: --solve-rate 1:0 is not a range; pass MIN:MAX",
        ),
        (SOURCE + "[difficulty]\nband = '0:1'", "difficulty: the field models is missing"),
        (SOURCE + "[[exports]]\nto = 'tlr'", "[exports]: to = 'tlr' is not one of jsonl, trl"),
        (SOURCE + "[[exports]]\nto = 'trl'\n[[exports]]\nto = 'trl'", "name = 'trl' is repeated"),
        (SOURCE + "[[exports]]\nto = 'trl'\nname = '../x'", "not a folder name"),
        (SOURCE + "[[exports]]\nto = 'trl'\ninclude = ['all']", "[exports]: only unverified, suspects"),
        ("[build]\nmin_tests = 3", "no source. Write [[sources]]"),
        ("[[sources]]\nname = 'taco'", "the field location is missing"),
        ("[build\n", "not TOML"),
        ("sources = 3", "expected"),
    ],
)
def test_a_mistake_is_shown_with_its_place(text, message, tmp_path):
    given = written(tmp_path, text)
    with pytest.raises(CurateError) as error:
        read_recipe(given)
    assert str(error.value).startswith(given)
    assert message in str(error.value)


def test_what_is_no_recipe_is_said_with_what_there_is(tmp_path):
    with pytest.raises(
        CurateError, match="no such recipe. Give a TOML file, a finished dataset, or one of deepcoder, int"
    ):
        read_recipe("deepcode")
    with pytest.raises(CurateError, match="not a curate dataset"):
        read_recipe(str(tmp_path))


def test_an_evaluation_set_has_the_grammar_of_the_option():
    for argument in ("humaneval=PATH", "lcb:2024-08-01..2025-01-31=owner/name", "lcb:2024-08-01..2025-01-31"):
        assert EvaluationSetConfig.parse(argument).argument == argument


@pytest.mark.parametrize("name", list_bundled_recipes())
def test_a_shipped_recipe_can_be_read_and_says_where_its_numbers_come_from(name):
    recipe = read_recipe(name)
    assert from_table(to_table(recipe)) == recipe
    assert recipe.exports
    assert "curate" in read_recipe_text(name)


def test_the_shipped_recipes_have_the_published_numbers():
    deepcoder, intellect2 = read_recipe("deepcoder"), read_recipe("intellect2")
    assert deepcoder.build.min_tests == 5
    assert [source.name for source in deepcoder.sources] == ["taco", "synthetic1", "livecodebench"]
    assert deepcoder.sources[2].options == {"release": "release_v5", "from": "2023-05-01", "to": "2024-07-31"}
    assert deepcoder.against[0].window == "2024-08-01..2025-01-31"
    assert (intellect2.difficulty.n, intellect2.difficulty.band) == (8, "0.125:0.5")
