import copy

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    LlamaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
)

from graphwrap.agents.models.tiny import build_tokenizer
from graphwrap.agents.policy import Policy
from graphwrap.agents.settings import LoraSettings, ModelSettings, TinySettings
from tests.agents.policies import ARCHITECTURES, WORDS, alone, make_model, make_policy, make_rows, move

pytestmark = pytest.mark.llm

LORA = LoraSettings(rank=4, alpha=8)
TINY = ModelSettings(device="cpu", tiny=TinySettings(hidden=32, layers=1, heads=1, intermediate=48))


def repeated(prompts, responses):
    """Every prompt with three of the responses, so that prompts are shared; some rows are there twice."""
    rows = [
        (prompt, responses[(place + shift) % len(responses)])
        for place, prompt in enumerate(prompts)
        for shift in (0, 1, 2)
    ]
    rows += rows[::4]
    return [prompt for prompt, _ in rows], [response for _, response in rows]


def log_probs_alone(policy, prompts, responses, temperature):
    rows = []
    for prompt, response in zip(prompts, responses):
        full, _ = alone(policy.model, prompt, response, temperature)
        rows.append(full[torch.arange(len(response)), torch.tensor(response)])
    return rows


@pytest.mark.parametrize("temperature", [0.4, 1.0, 1.7])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_log_probs_are_those_of_each_row_alone(architecture, shared, temperature):
    policy = make_policy(architecture)
    prompts, responses = make_rows(policy, 8)
    if shared:
        prompts, responses = repeated(prompts, responses)

    result = policy.evaluate(prompts, responses, temperature)

    expected = log_probs_alone(policy, prompts, responses, temperature)
    assert result.log_probs.dtype == torch.float32
    assert result.mask.sum(1).tolist() == list(map(len, responses))
    for row, one in enumerate(expected):
        torch.testing.assert_close(result.log_probs[row, : len(one)], one, atol=1e-5, rtol=0)
        assert (result.log_probs[row, len(one) :] == 0).all()


@pytest.mark.parametrize("shared", [False, True])
def test_entropies_and_values_are_of_the_same_distributions(shared):
    policy = make_policy(critic=True)
    move(policy)
    prompts, responses = make_rows(policy, 6)
    if shared:
        prompts, responses = repeated(prompts, responses)

    result = policy.evaluate(prompts, responses, 0.7, entropy=True, values=True)
    plain = policy.evaluate(prompts, responses, 0.7)

    torch.testing.assert_close(result.log_probs, plain.log_probs, atol=1e-6, rtol=0)
    assert plain.entropies is None
    assert plain.values is None
    for row, (prompt, response) in enumerate(zip(prompts, responses)):
        full, hidden = alone(policy.model, prompt, response, 0.7)
        entropies = -(full.exp() * full).sum(-1)
        torch.testing.assert_close(result.entropies[row, : len(response)], entropies, atol=1e-5, rtol=0)
        assert (result.entropies[row, len(response) :] == 0).all()
        value = policy.value_head(hidden[0])[0]
        torch.testing.assert_close(result.values[row], value, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("shared", [False, True])
def test_gradients_are_those_of_each_row_alone(shared):
    policy = make_policy("qwen2")
    prompts, responses = make_rows(policy, 6)
    if shared:
        prompts, responses = repeated(prompts, responses)
    factors = torch.linspace(-1, 1, len(prompts))

    result = policy.evaluate(prompts, responses, 0.9)
    (result.log_probs.sum(1) * factors).sum().backward()
    got = [weight.grad.clone() for weight in policy.parameters()]

    policy.model.zero_grad()
    expected = log_probs_alone(policy, prompts, responses, 0.9)
    sum(one.sum() * factor for one, factor in zip(expected, factors)).backward()
    assert len(got) > 10
    for one, weight in zip(got, policy.parameters()):
        torch.testing.assert_close(one, weight.grad, atol=1e-4, rtol=1e-4)


def test_results_do_not_depend_on_the_other_rows():
    policy = make_policy()
    prompts, responses = make_rows(policy, 20, longest=30)

    together = policy.evaluate(prompts, responses, 1.0).log_probs
    repeats = policy.evaluate([*prompts[:4] * 5], [*responses[:4], *responses[4:20]], 1.0).log_probs

    for row in range(20):
        one = policy.evaluate(prompts[row : row + 1], responses[row : row + 1], 1.0).log_probs[0]
        torch.testing.assert_close(together[row, : len(one)], one, atol=1e-5, rtol=0)
        if row < 4:
            torch.testing.assert_close(repeats[row, : len(one)], one, atol=1e-5, rtol=0)


def test_equal_rows_and_prompts_go_through_the_model_once():
    policy = make_policy()
    shapes = []
    policy.model.register_forward_pre_hook(
        lambda _module, _args, kwargs: shapes.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )

    policy.evaluate([(5, 6, 7)] * 9, [(4, 8, 1)] * 3 + [(4, 9, 1)] * 6, 1.0)
    assert shapes == [(1, 3), (2, 2)]

    shapes.clear()
    policy.evaluate([(5, 6, 7)] * 9, [(8,)] * 3 + [(9,)] * 6, 1.0)
    assert shapes == [(1, 3)]

    shapes.clear()
    policy.evaluate([(5, 6, 7), (5, 6)], [(8, 1)] * 2, 1.0)
    assert shapes == [(2, 4)]

    shapes.clear()
    policy.share_prompts = False
    policy.evaluate([(5, 6, 7)] * 9, [(4, 8, 1)] * 3 + [(4, 9, 1)] * 6, 1.0)
    assert shapes == [(2, 5)]


def test_padding_with_the_end_of_sequence_id_changes_nothing():
    policy = make_policy()
    prompts, responses = make_rows(policy, 8)
    before = policy.evaluate(prompts, responses, 1.0)

    policy.pad_id = policy.eos_ids[0]
    after = policy.evaluate(prompts, responses, 1.0)

    assert torch.equal(before.mask, after.mask)
    torch.testing.assert_close(before.log_probs, after.log_probs, atol=1e-6, rtol=0)


def test_a_tokenizer_without_padding_pads_with_the_end_of_sequence():
    tokenizer = make_policy().tokenizer
    tokenizer.pad_token = None
    assert Policy(make_model("llama", len(tokenizer)), tokenizer).pad_id == tokenizer.eos_token_id


def test_every_id_that_ends_an_answer_is_known():
    policy = make_policy()
    assert policy.eos_ids == (1,)
    policy.model.generation_config = GenerationConfig(eos_token_id=[5, 1, 7])
    assert Policy(policy.model, policy.tokenizer).eos_ids == (1, 5, 7)


def test_a_model_that_nothing_ends_is_refused():
    policy = make_policy()
    policy.tokenizer.eos_token = None
    policy.model.config.eos_token_id = policy.model.generation_config.eos_token_id = None
    with pytest.raises(ValueError, match="nothing ends an answer"):
        Policy(policy.model, policy.tokenizer)


class _AllLogits(LlamaForCausalLM):
    def forward(
        self,
        input_ids,
        attention_mask=None,
        position_ids=None,
        past_key_values=None,
        use_cache=None,
        **kwargs,
    ):
        assert "logits_to_keep" not in kwargs
        return super().forward(
            input_ids, attention_mask, position_ids, past_key_values, use_cache=use_cache, **kwargs
        )


def test_a_model_that_computes_all_logits():
    policy = make_policy()
    model = _AllLogits(policy.model.config)
    model.load_state_dict(policy.model.state_dict())
    other = Policy(model, policy.tokenizer)
    prompts, responses = repeated(*make_rows(policy, 4))

    torch.testing.assert_close(
        policy.evaluate(prompts, responses, 1.0).log_probs, other.evaluate(prompts, responses, 1.0).log_probs
    )


@pytest.mark.parametrize(
    ("prompts", "responses", "temperature", "options", "message"),
    [
        ([[1]], [[2]], 0.0, {}, "temperature is above 0"),
        ([[1]], [[]], 1.0, {}, "at least one token"),
        ([[1]], [[2]], 1.0, {"values": True}, "critic=True"),
    ],
)
def test_what_evaluate_refuses(prompts, responses, temperature, options, message):
    with pytest.raises(ValueError, match=message):
        make_policy().evaluate(prompts, responses, temperature, **options)


def test_adapters_start_as_nothing_and_alone_are_trained():
    plain, policy = make_policy(), make_policy(lora=LORA)
    prompts, responses = make_rows(policy, 4)

    torch.testing.assert_close(
        policy.evaluate(prompts, responses, 1.0).log_probs, plain.evaluate(prompts, responses, 1.0).log_probs
    )
    trained = {name for name, weight in policy.model.named_parameters() if weight.requires_grad}
    assert trained
    assert all("lora_" in name for name in trained)
    assert len(policy.parameters()) == len(trained)
    assert policy.has_adapters
    assert not plain.has_adapters


def test_the_reference_of_adapters_is_the_model_without_them():
    policy = make_policy(lora=LORA, critic=True)
    prompts, responses = make_rows(policy, 6)
    before = policy.evaluate(prompts, responses, 1.0).log_probs.detach()
    move(policy)
    after = policy.evaluate(prompts, responses, 1.0).log_probs.detach()

    with policy.reference(), torch.no_grad():
        reference = policy.evaluate(prompts, responses, 1.0).log_probs
        with pytest.raises(ValueError, match="outside reference"):
            policy.evaluate(prompts, responses, 1.0, values=True)

    assert (after - before).abs().max() > 0.01
    torch.testing.assert_close(reference, before)
    torch.testing.assert_close(policy.evaluate(prompts, responses, 1.0).log_probs, after)


def test_the_reference_of_full_weights_is_a_frozen_copy():
    policy = make_policy()
    prompts, responses = make_rows(policy, 6)
    assert not policy.has_reference
    with pytest.raises(ValueError, match="reference=True"), policy.reference():
        pass

    policy.freeze_reference()
    before = policy.evaluate(prompts, responses, 1.0).log_probs.detach()
    trained = len(policy.parameters())
    move(policy)
    with policy.reference():
        reference = policy.evaluate(prompts, responses, 1.0).log_probs

    torch.testing.assert_close(reference, before)
    assert not reference.requires_grad
    assert len(policy.parameters()) == trained
    assert (policy.evaluate(prompts, responses, 1.0).log_probs - before).abs().max() > 0.01


def test_an_error_within_the_reference_leaves_it():
    policy = make_policy()
    policy.freeze_reference()
    model = policy.model
    with pytest.raises(KeyError), policy.reference():
        raise KeyError
    assert policy.model is model
    assert policy.evaluate([[5]], [[6]], 1.0).log_probs.requires_grad


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_named_weights_are_the_merged_model_under_hugging_face_names(architecture):
    lora = LoraSettings(
        rank=4, alpha=8, target_modules="c_attn,c_fc" if architecture == "gpt2" else "all-linear"
    )
    policy = make_policy(architecture, lora=lora)
    move(policy)
    stored = {name: weight.clone() for name, weight in policy.model.state_dict().items()}

    weights = dict(policy.named_weights())

    for name, weight in policy.model.state_dict().items():
        assert torch.equal(weight, stored[name])
    plain = make_policy(architecture, seed=9)
    own = dict(plain.model.named_parameters())
    assert list(own) == list(weights)
    with torch.no_grad():
        for name, weight in own.items():
            weight.copy_(weights[name])
    prompts, responses = make_rows(policy, 6)
    torch.testing.assert_close(
        plain.evaluate(prompts, responses, 1.0).log_probs,
        policy.evaluate(prompts, responses, 1.0).log_probs,
        atol=1e-5,
        rtol=0,
    )


def test_named_weights_of_full_weights_are_live_and_without_gradients():
    policy = make_policy("qwen2")
    weights = dict(policy.named_weights())
    assert "lm_head.weight" not in weights  # tied to the embedding
    for name, weight in policy.model.named_parameters():
        assert weights[name].data_ptr() == weight.data_ptr()
        assert not weights[name].requires_grad


def test_a_mixture_of_experts_comes_back(tmp_path):
    """Its files name every expert, the module has all of them in one weight."""
    tokenizer = build_tokenizer([WORDS], 64)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = MixtralConfig(
        vocab_size=len(tokenizer), num_key_value_heads=2, num_local_experts=2, pad_token_id=0, **sizes
    )
    first, second = (Policy(MixtralForCausalLM(config).eval(), tokenizer) for _ in range(2))
    first.save(tmp_path / "saved")
    second.restore(tmp_path / "saved")
    for name, weight in first.model.named_parameters():
        assert torch.equal(weight, second.model.get_parameter(name)), name
    with pytest.raises(ValueError, match="holds the weights of another model"):
        make_policy().restore(tmp_path / "saved")


@pytest.mark.parametrize("lora", [None, LORA])
@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_a_saved_folder_is_loaded_by_from_pretrained(architecture, lora, tmp_path):
    policy = make_policy(architecture, lora=lora)
    move(policy)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "old").write_text("of an earlier model")

    policy.save(tmp_path / "model", merged=True)

    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert not (tmp_path / "model" / "old").exists()
    model, loading = AutoModelForCausalLM.from_pretrained(tmp_path / "model", output_loading_info=True)
    assert not any(loading.values())
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    prompts, responses = make_rows(policy, 6)
    torch.testing.assert_close(
        Policy(model, tokenizer).evaluate(prompts, responses, 1.0).log_probs,
        policy.evaluate(prompts, responses, 1.0).log_probs,
        atol=1e-5,
        rtol=0,
    )
    text = "<action> go up </action>"
    if architecture == "qwen2":  # whose folders get a tokenizer of their own kind
        return
    assert tokenizer(text).input_ids == policy.tokenizer(text).input_ids


@pytest.mark.parametrize("lora", [None, LORA])
@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_restored_weights_are_the_saved_ones_bit_for_bit(architecture, lora, tmp_path):
    policy = make_policy(architecture, lora=lora, critic=True)
    move(policy)
    policy.save(tmp_path / "saved")
    other = make_policy(architecture, lora=lora, critic=True)
    places = [weight.data_ptr() for weight in other.parameters()]

    other.restore(tmp_path / "saved")

    assert [weight.data_ptr() for weight in other.parameters()] == places
    assert len(other.parameters()) > 2
    for one, weight in zip(other.parameters(), policy.parameters()):
        assert torch.equal(one, weight)
    assert (tmp_path / "saved" / "adapter_config.json").exists() == (lora is not None)


def test_adapters_are_saved_for_peft(tmp_path):
    from peft import PeftModel

    policy = make_policy(lora=LORA)
    move(policy)
    policy.save(tmp_path / "adapter")
    loaded = Policy(PeftModel.from_pretrained(make_policy().model, tmp_path / "adapter"), policy.tokenizer)
    prompts, responses = make_rows(policy, 4)
    torch.testing.assert_close(
        loaded.evaluate(prompts, responses, 1.0).log_probs, policy.evaluate(prompts, responses, 1.0).log_probs
    )


def test_restoring_what_does_not_fit_changes_nothing(tmp_path):
    policy = make_policy(critic=True)
    make_policy().save(tmp_path / "plain")
    make_policy(critic=True, num_hidden_layers=1).save(tmp_path / "smaller")
    make_policy(critic=True, intermediate_size=64).save(tmp_path / "wider")
    before = copy.deepcopy(policy.model.state_dict())

    with pytest.raises(FileNotFoundError, match="without critic"):
        policy.restore(tmp_path / "plain")
    with pytest.raises(FileNotFoundError, match="adapters"):
        make_policy(lora=LORA).restore(tmp_path / "plain")
    for name in ("smaller", "wider"):
        with pytest.raises(ValueError, match="another model"):
            policy.restore(tmp_path / name)
    for name, weight in policy.model.state_dict().items():
        assert torch.equal(weight, before[name])


def test_a_failed_save_leaves_the_old_folder(tmp_path, monkeypatch):
    policy = make_policy()
    policy.save(tmp_path / "model")
    before = (tmp_path / "model" / "model.safetensors").read_bytes()
    move(policy)

    def fail(*_args, **_kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(policy.tokenizer, "save_pretrained", fail)
    with pytest.raises(OSError, match="disk full"):
        policy.save(tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert (tmp_path / "model" / "model.safetensors").read_bytes() == before


@pytest.mark.parametrize("lora", [None, LoraSettings(rank=4, alpha=8, target_modules="c_attn,c_proj")])
def test_gradient_checkpointing_changes_memory_and_nothing_else(lora):
    dropout = {"attn_pdrop": 0.5, "resid_pdrop": 0.5, "embd_pdrop": 0.5}
    plain = make_policy("gpt2", lora=lora, **dropout)
    plain.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    policy = Policy(plain.model, plain.tokenizer)
    prompts, responses = repeated(*make_rows(policy, 4))
    calls = []
    policy.base.transformer.h[0].mlp.register_forward_pre_hook(
        lambda *_: calls.append(torch.is_grad_enabled())
    )

    policy.evaluate(prompts, responses, 1.0).log_probs.sum().backward()
    assert len(calls) == 2  # once more by the backward pass
    got = [weight.grad.clone() for weight in policy.parameters()]

    policy.model.zero_grad()
    policy._checkpointing = False
    policy.share_prompts = False
    calls.clear()
    policy.evaluate(prompts, responses, 1.0).log_probs.sum().backward()
    assert len(calls) == 1
    for one, weight in zip(got, policy.parameters()):
        torch.testing.assert_close(one, weight.grad, atol=1e-5, rtol=1e-5)
    assert not any(module.training for module in policy.model.modules())


def test_bfloat16_keeps_full_weights_in_float32():
    settings = copy.deepcopy(TINY)
    settings.dtype = "bfloat16"
    policy = Policy.load(settings, texts=[WORDS], reference=True)
    exact = Policy.load(TINY, texts=[WORDS])
    prompts, responses = make_rows(policy, 6)

    result = policy.evaluate(prompts, responses, 1.0)
    with policy.reference():
        reference = policy.evaluate(prompts, responses, 1.0)

    assert {weight.dtype for weight in policy.parameters()} == {torch.float32}
    assert {weight.dtype for _, weight in policy.named_weights()} == {torch.bfloat16}
    assert result.log_probs.dtype == torch.float32
    difference = (result.log_probs - exact.evaluate(prompts, responses, 1.0).log_probs).abs().max()
    assert 0 < difference < 0.05
    torch.testing.assert_close(reference.log_probs, result.log_probs, atol=0.05, rtol=0)
    result.log_probs.sum().backward()
    assert all(weight.grad.dtype == torch.float32 for weight in policy.parameters())


def test_bfloat16_freezes_the_base_of_adapters_in_it():
    settings = copy.deepcopy(TINY)
    settings.dtype, settings.lora = "bfloat16", LORA
    policy = Policy.load(settings, texts=[WORDS])

    assert {weight.dtype for weight in policy.parameters()} == {torch.float32}
    frozen = {weight.dtype for weight in policy.model.parameters() if not weight.requires_grad}
    assert frozen == {torch.bfloat16}
    assert policy.evaluate([[5, 6]], [[7, 8]], 1.0).log_probs.dtype == torch.float32


def test_loading_leaves_the_global_generator_and_follows_the_seed():
    settings = copy.deepcopy(TINY)
    settings.lora = LORA
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)

    policies = [Policy.load(settings, texts=[WORDS], seed=seed) for seed in (3, 3, 4)]

    assert torch.equal(torch.rand(1), expected)
    first, same, other = ([weight.detach() for weight in policy.model.parameters()] for policy in policies)
    assert all(map(torch.equal, first, same))
    assert not all(map(torch.equal, first, other))


def test_loading_a_folder(tmp_path):
    policy = make_policy("gpt2")
    policy.save(tmp_path / "model")
    loaded = Policy.load(ModelSettings(path=str(tmp_path / "model"), device="cpu"), critic=True)
    prompts, responses = make_rows(policy, 4)
    torch.testing.assert_close(
        loaded.evaluate(prompts, responses, 1.0, values=True).log_probs,
        policy.evaluate(prompts, responses, 1.0).log_probs,
    )
    assert loaded.max_length == 64


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": "float16"}, "auto, float32 or bfloat16, got 'float16'"),
        ({"lora": LoraSettings(rank=4, dropout=0.1)}, "lora.dropout is 0"),
        ({"lora": LoraSettings(rank=-1)}, "at least 0, got -1"),
        ({"lora": LoraSettings(rank=4, target_modules="nowhere")}, "nowhere"),
    ],
)
def test_settings_that_are_refused(change, message):
    settings = copy.deepcopy(TINY)
    for name, value in change.items():
        setattr(settings, name, value)
    with pytest.raises(ValueError, match=message):
        Policy.load(settings, texts=[WORDS])


def test_critic_values_start_at_zero_and_train_the_model():
    policy = make_policy(critic=True)
    values = policy.evaluate([[5, 6], [7]], [[8], [9]], 1.0, values=True).values
    assert np.array_equal(values.detach().numpy(), [0.0, 0.0])
    move(policy)
    policy.evaluate([[5, 6], [7]], [[8], [9]], 1.0, values=True).values.sum().backward()
    assert policy.value_head.weight.grad.abs().max() > 0
    assert policy.model.get_input_embeddings().weight.grad.abs().max() > 0
