import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from graphwrap.agents.models.tiny import build_model, build_tokenizer
from graphwrap.agents.prompting.answers import parse_action
from graphwrap.agents.settings import TinySettings
from graphwrap.envs import SokobanEnv

pytestmark = pytest.mark.llm

BOARD = "######\n#  . #\n#@$  #\n######"
TEXTS = (BOARD, "Push the box: up, down, left or right.\nIt's a pick-up.", "<action>up</action>")
SMALL = TinySettings(hidden=32, layers=1, heads=1, intermediate=48, max_length=64)


def words(tokenizer, text):
    return tokenizer.convert_ids_to_tokens(tokenizer(text).input_ids)


def test_ids_have_no_holes_and_do_not_depend_on_the_order_of_texts():
    tokenizer = build_tokenizer(TEXTS)
    vocabulary = tokenizer.get_vocab()

    assert sorted(vocabulary.values()) == list(range(len(tokenizer)))
    assert [vocabulary[token] for token in ("<pad>", "<eos>", "<unk>", "<assistant>")] == [0, 1, 2, 3]
    assert build_tokenizer([*TEXTS[::-1], BOARD]).get_vocab() == vocabulary
    assert build_tokenizer(["<pad> <action> <eos> up"]).get_vocab().keys() >= {
        "<pad>",
        "<action>",
        "<eos>",
        "up",
    }


def test_words_and_tags_are_one_token_and_so_is_every_cell():
    tokenizer = build_tokenizer(TEXTS)

    assert words(tokenizer, "#@$ .#\n#  . #") == list("#@$ .##  . #")
    assert words(tokenizer, "\n".join([TEXTS[1], BOARD])) == [
        *(
            "Push",
            "the",
            "box",
            ":",
            "up",
            ",",
            "down",
            ",",
            "left",
            "or",
            "right",
            ".",
            "It's",
            "a",
            "pick-up",
            ".",
        ),
        *BOARD.replace("\n", ""),
    ]
    assert words(tokenizer, "<action> up </action>") == ["<action>", "up", "</action>"]
    assert words(tokenizer, "<action>up</action>\n\n<think></think>") == [
        *("<action>", "up", "</action>", "<think>", "</think>")
    ]
    assert words(tokenizer, "up sideways") == ["up", "<unk>"]


def test_boards_that_differ_have_different_tokens():
    env = SokobanEnv(obs="text")
    boards = {env.reset(seed=seed)[0] for seed in range(200)}
    tokenizer = build_tokenizer(boards)

    ids = {tuple(tokenizer(board).input_ids) for board in boards}

    assert len(ids) == len(boards)
    assert {len(one) for one in ids} == {36}
    assert not any(tokenizer.unk_token_id in one for one in ids)


@pytest.mark.parametrize("action", ["up", "go to cabinet 1", "pick-up box"])
def test_decoded_answers_are_read_by_the_parser(action):
    tokenizer = build_tokenizer([*TEXTS, action])
    ids = tokenizer(f"<think> up </think><action>{action}</action>").input_ids

    text = tokenizer.decode([*ids, tokenizer.eos_token_id], skip_special_tokens=True)

    parsed = parse_action(text, [action, "wait"], finished=True, think=True)
    assert parsed.valid
    assert parsed.action == action


def test_the_chat_template_adds_one_token_where_the_answer_begins():
    tokenizer = build_tokenizer(TEXTS)
    chat = [{"role": "system", "content": "Push the box:"}, {"role": "user", "content": BOARD}]

    prompt = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    answered = tokenizer.apply_chat_template(
        [*chat, {"role": "assistant", "content": "<action>up</action>"}], tokenize=False
    )

    assert words(tokenizer, prompt) == ["Push", "the", "box", ":", *BOARD.replace("\n", ""), "<assistant>"]
    assert words(tokenizer, answered) == [*words(tokenizer, prompt), "<action>", "up", "</action>", "<eos>"]


def test_tokenizer_and_model_are_loaded_by_the_auto_classes(tmp_path):
    tokenizer = build_tokenizer(TEXTS, 64)
    model = build_model(SMALL, tokenizer)
    tokenizer.save_pretrained(tmp_path)
    model.save_pretrained(tmp_path)

    same = AutoTokenizer.from_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)

    text = f"Push up\n{BOARD}\n<assistant><action> left </action>"
    assert same(text).input_ids == tokenizer(text).input_ids
    assert same.decode(same(text).input_ids) == tokenizer.decode(tokenizer(text).input_ids)
    assert same.chat_template == tokenizer.chat_template
    assert (same.pad_token_id, same.eos_token_id, same.model_max_length) == (0, 1, 64)
    assert loaded.generation_config.eos_token_id == 1
    ids = torch.tensor([same(text).input_ids])
    assert torch.equal(loaded(ids).logits, model(ids).logits)


def test_the_default_model_has_a_million_parameters_and_heads_that_vllm_takes():
    model = build_model(TinySettings(), build_tokenizer(TEXTS))
    assert 0.9e6 < sum(weight.numel() for weight in model.parameters()) < 1.2e6
    assert model.config.head_dim == 32
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}


def test_the_seed_decides_the_weights_and_the_global_generator_is_left():
    tokenizer = build_tokenizer(TEXTS)
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)

    first, same, other = (build_model(SMALL, tokenizer, seed).state_dict() for seed in (1, 1, 2))

    assert torch.equal(torch.rand(1), expected)
    assert all(torch.equal(first[name], same[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_no_texts_are_refused():
    with pytest.raises(ValueError, match="got none"):
        build_tokenizer([])


@pytest.mark.parametrize("sizes", [{"hidden": 100, "heads": 3}, {"hidden": 15, "heads": 3}])
def test_heads_that_do_not_fit_are_refused(sizes):
    with pytest.raises(ValueError, match=f"hidden={sizes['hidden']}, heads=3"):
        build_model(TinySettings(**sizes), build_tokenizer(TEXTS))
