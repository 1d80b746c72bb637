from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors
from tokenizers.decoders import ByteLevel
from transformers import PreTrainedTokenizerFast

from graphwrap.agents.prompts import Prompter, PromptTemplate, Turn, parse_action
from graphwrap.agents.settings import PromptSettings

pytestmark = pytest.mark.llm

MESSAGE = "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
ANSWER = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
CHATML = "{% for message in messages %}" + MESSAGE + "{% endfor %}" + ANSWER
WITHOUT_SYSTEM = (  # as Gemma's
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}" + CHATML
)
DROPS_SYSTEM = (
    "{% for message in messages if message['role'] != 'system' %}" + MESSAGE + "{% endfor %}" + ANSWER
)
OPENS_THINK = CHATML.replace("assistant\n", "assistant\n<think>\n")

SPECIAL = ["<|im_start|>", "<|im_end|>", "<s>"]
TEMPLATE = PromptTemplate.parse(
    "[system]\nRules.\n[step]\n{history}|{observation}\n[turn]\n{observation}>{action}"
)


def tokenizer(
    chat_template: str | None = CHATML,
    *,
    pad: str = "<|im_end|>",
    specials: Sequence[str] = (),
    post: Any = None,
) -> PreTrainedTokenizerFast:
    """One token per byte, and special ones."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, *specials, *letters])}
    made = Tokenizer(models.BPE(vocabulary, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = ByteLevel()
    made.add_special_tokens([AddedToken(token, special=True) for token in [*SPECIAL, *specials]])
    if post:
        made.post_processor = post
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        bos_token="<s>",
        eos_token="<|im_end|>",
        pad_token=pad,
        chat_template=chat_template,
    )


def prompter(tokens: Any, template: PromptTemplate = TEMPLATE, **settings: Any) -> Prompter:
    return Prompter(template, tokens, PromptSettings(**settings))


def encode(made: Prompter, **changes: Any) -> Any:
    values: dict[str, Any] = {
        "task": "",
        "step": 0,
        "history": [],
        "observation": "board",
        "admissible": None,
    }
    return made.encode(**{**values, **changes})


def test_a_system_role() -> None:
    prompt = encode(prompter(tokenizer()))
    assert prompt.text == (
        "<|im_start|>system\nRules.<|im_end|>\n<|im_start|>user\n|board<|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.parametrize("chat_template", [WITHOUT_SYSTEM, DROPS_SYSTEM])
def test_without_a_system_role_the_user_message_has_the_rules(chat_template: str) -> None:
    prompt = encode(prompter(tokenizer(chat_template)))
    begin = "<s>" if chat_template is WITHOUT_SYSTEM else ""
    assert prompt.text == f"{begin}<|im_start|>user\nRules.\n\n|board<|im_end|>\n<|im_start|>assistant\n"


def test_special_tokens_are_single_ids_and_come_once() -> None:
    begins = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 2)])
    for tokens in (tokenizer(WITHOUT_SYSTEM), tokenizer(WITHOUT_SYSTEM, post=begins)):
        ids = encode(prompter(tokens)).token_ids
        assert all(type(one) is int for one in ids)
        assert ids[:2] == (2, 0)
        assert [ids.count(special) for special in range(3)] == [2, 1, 1]


@pytest.mark.parametrize("pad", ["<|im_end|>", "<s>"])
def test_the_end_of_a_message_stays_when_it_is_the_padding_token(pad: str) -> None:
    tokens = tokenizer(pad=pad)
    prompt = encode(prompter(tokens))
    assert prompt.token_ids.count(tokens.eos_token_id) == 2
    assert tokens.decode(prompt.token_ids) == prompt.text


def test_no_chat_template() -> None:
    begins = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 2)])
    ends = processors.TemplateProcessing(single="$A <|im_end|>", special_tokens=[("<|im_end|>", 1)])
    prompt = encode(prompter(tokenizer(None, post=begins), prefill="<think>"))
    assert prompt.text == "Rules.\n\n|board\n<think>"
    assert prompt.token_ids[0] == 2
    assert len(prompt.token_ids) == 1 + len(prompt.text)
    prompt = encode(prompter(tokenizer(None, post=ends)))
    assert prompt.token_ids[-1] != 1
    assert len(prompt.token_ids) == len("Rules.\n\n|board\n")


@pytest.mark.parametrize(
    ("chat_template", "prefill", "opening"),
    [
        (CHATML, "", ""),
        (CHATML, "<think>I", "<think>I"),
        (OPENS_THINK, "", "<think>"),
        (OPENS_THINK, "I", "<think>I"),
        (None, "<think>", "<think>"),
    ],
)
def test_what_the_prompt_opens_is_part_of_the_answer(
    chat_template: str | None, prefill: str, opening: str
) -> None:
    tokens = tokenizer(chat_template)
    made = prompter(tokens, prefill=prefill)
    assert "".join(encode(made).text.split()).endswith(opening or "assistant")
    answer = tokens(" push.</think><action>up</action>", add_special_tokens=False)["input_ids"]
    text = made.decode([*answer, tokens.eos_token_id])
    assert text == f"{opening} push.</think><action>up</action>"
    parsed = parse_action(text, ["up"], finished=True, think=True)
    assert parsed.reason == ("" if opening else "no think")


def test_decode_keeps_tags_that_are_special_tokens() -> None:
    tokens = tokenizer(specials=["<action>", "</action>"], pad="<s>")
    made = prompter(tokens)
    ids = tokens("<action>up</action>", add_special_tokens=False)["input_ids"]
    assert len(ids) == 4
    for end in ([], [1], [1, 2, 2]):
        assert made.decode([*ids, *end]) == "<action>up</action>"
    assert made.decode([]) == ""
    assert made.decode([1]) == ""


def test_turns_are_left_out_oldest_first_until_it_fits() -> None:
    turns = [Turn("x" * 10, "a"), Turn("y" * 10, "b"), Turn("z" * 10, "c")]
    full = encode(prompter(tokenizer(), history=3), step=3, history=turns)
    assert full.dropped == 0
    size = len(full.token_ids)
    for history, max_tokens, letters, dropped in [
        (3, size, "xyz", 0),
        (3, size - 1, "yz", 1),
        (3, size - 13, "yz", 1),
        (3, size - 14, "z", 2),
        (3, size - 26, "z", 2),
        (3, size - 27, "", 3),
        (3, size - 38, "", 3),
        (2, size, "yz", 0),
        (2, size - 14, "z", 1),
        (0, size, "", 0),
        (5, size, "xyz", 0),
    ]:
        prompt = encode(prompter(tokenizer(), history=history, max_tokens=max_tokens), step=3, history=turns)
        assert (history, max_tokens, prompt.dropped) == (history, max_tokens, dropped)
        assert [letter for letter in "xyz" if letter * 10 in prompt.text] == list(letters)
        assert len(prompt.token_ids) <= max_tokens


def test_a_prompt_that_never_fits_is_refused() -> None:
    shortest = len(encode(prompter(tokenizer())).token_ids)
    encode(prompter(tokenizer(), max_tokens=shortest))
    with pytest.raises(
        ValueError, match=rf"prompt\.max_tokens={shortest - 1} tokens, got {shortest} without any history"
    ):
        encode(prompter(tokenizer(), max_tokens=shortest - 1), step=1, history=[Turn("a", "b")])


@pytest.mark.parametrize(("name", "value"), [("history", -1), ("max_tokens", 0)])
def test_wrong_settings_are_refused(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=rf"prompt\.{name} is .*at least [01], got {value}"):
        prompter(tokenizer(), **{name: value})


def test_equal_prompts_are_equal_and_others_are_not() -> None:
    made = prompter(tokenizer())
    one, same = encode(made), encode(made, task="another", step=7)  # neither is in the template
    assert one == same
    assert encode(made, observation="board ").token_ids != one.token_ids


def test_whitespace_of_a_board_survives() -> None:
    board = "#  #\n# @#\n    "
    ids = encode(prompter(tokenizer()), observation=board).token_ids
    assert board in tokenizer().decode(ids)
