"""Records of fine-tuning data as tokens, and which of them are an answer.

| keys of the record | what it is |
|---|---|
| messages: [{role, content}, …] | a chat, as OpenAI's API has it |
| conversations: [{from, value}, …] | the same, as ShareGPT has it |
| instruction, input, output | Alpaca: a question, what it is about (may be missing), and its answer |
| prompt, completion | texts that follow each other, or lists of messages |
| text, or sentence | a text without a question; all of it is trained |

A chat is written as the tokenizer's chat template says; where it has none, each turn as "### User:", its text and an
empty line. A text is tokenized whole, as a model will meet it, and a token belongs to an answer when it begins in one.
"""

from dataclasses import dataclass
from typing import Any

from ...errors import InputError, first_line

_ROLES = {
    "system": "system", "developer": "system", "user": "user", "human": "user", "assistant": "assistant",
    "gpt": "assistant", "tool": "tool",
}  # fmt: skip
_CHARACTERS = 64  # of a token, at least so many are tried before a long text is tokenized whole
FORMATS = "text, messages, conversations, instruction and output, prompt and completion, or input_ids"


@dataclass(frozen=True)
class Text:
    """A text, and where in it the answers are: [begin, end) in characters; None where all of it is trained."""

    text: str
    answers: tuple[tuple[int, int], ...] | None = None
    is_rendered: bool = False  # a chat template has written the special tokens already


@dataclass(frozen=True)
class Words:
    """Token ids, and for each whether it is part of an answer."""

    ids: list[int]
    is_answer: list[bool]


def text_of(record: dict[str, Any], tokenizer: Any, where: str) -> Text | None:
    """The text of a record in one of the formats above; None for a record in none of them.

    Raises InputError for a record that is in one of them and malformed.
    """
    if record.get("messages") is not None:
        return _chat(_turns(record["messages"], "role", "content", where), tokenizer, where)
    if record.get("conversations") is not None:
        return _chat(_turns(record["conversations"], "from", "value", where), tokenizer, where)
    if record.get("instruction") is not None:
        question = [_string(record, "instruction", where)]
        if record.get("input") not in (None, ""):
            question.append(_string(record, "input", where))
        answer = _string(record, "output", where)
        return _chat([("user", "\n\n".join(question)), ("assistant", answer)], tokenizer, where)
    if record.get("prompt") is not None:
        return _completed(record, tokenizer, where)
    text = record.get("text") if record.get("text") is not None else record.get("sentence")
    if text is None:
        return None
    if not isinstance(text, str):
        raise InputError(f"{where}: text must be a string, not {type(text).__name__}")
    return Text(text)


def tokenise(text: Text, tokenizer: Any, vocabulary: int, longest: int) -> Words:
    """The first `longest` tokens. Without a tokenizer (presets) bytes stand for words."""
    if tokenizer is None:
        return _bytes(text, vocabulary, longest)
    # a text of megabytes costs seconds and all but its first words are cut off
    tried = longest * _CHARACTERS
    while tried < len(text.text):
        words = _tokens(Text(text.text[:tried], text.answers, text.is_rendered), tokenizer)
        if len(words.ids) > longest + _CHARACTERS:
            return Words(words.ids[:longest], words.is_answer[:longest])
        tried *= 8
    words = _tokens(text, tokenizer)
    return Words(words.ids[:longest], words.is_answer[:longest])


def _tokens(text: Text, tokenizer: Any) -> Words:
    if text.answers is None:
        ids = list(tokenizer(text.text)["input_ids"])
        return Words(ids, [True] * len(ids))
    if not tokenizer.is_fast:
        return _piecewise(text, tokenizer)
    found = tokenizer(text.text, add_special_tokens=not text.is_rendered, return_offsets_mapping=True)
    # special tokens that are not in the text have the empty place (0, 0)
    inside = [begin < end and any(a <= begin < b for a, b in text.answers) for begin, end in found["offset_mapping"]]
    return Words(list(found["input_ids"]), inside)


def _piecewise(text: Text, tokenizer: Any) -> Words:
    """The same with a tokenizer that does not say where its tokens are: answers and what is between them apart."""
    ids: list[int] = [] if text.is_rendered else list(tokenizer("")["input_ids"])
    inside = [False] * len(ids)
    done = 0
    for begin, end in (*(text.answers or ()), (len(text.text), len(text.text))):
        for piece, is_answer in ((text.text[done:begin], False), (text.text[begin:end], True)):
            words = tokenizer(piece, add_special_tokens=False)["input_ids"] if piece else []
            ids += words
            inside += [is_answer] * len(words)
        done = end
    return Words(ids, inside)


def _bytes(text: Text, vocabulary: int, longest: int) -> Words:
    ids, inside = [], []
    for place, character in enumerate(text.text[:longest]):
        is_answer = text.answers is None or any(a <= place < b for a, b in text.answers)
        for byte in character.encode("utf-8", "replace"):
            ids.append(byte % vocabulary)
            inside.append(is_answer)
    return Words(ids[:longest], inside[:longest])


def _string(record: dict[str, Any], key: str, where: str) -> str:
    value = record.get(key)
    if not isinstance(value, str):
        said = "is missing" if value is None else f"must be a string, not {type(value).__name__}"
        raise InputError(f"{where}: {key} {said}")
    if not value.strip():
        raise InputError(f"{where}: {key} is empty")
    return value


def _turns(value: Any, role_key: str, text_key: str, where: str) -> list[tuple[str, str]]:
    name = "messages" if role_key == "role" else "conversations"
    if not isinstance(value, list) or not value:
        raise InputError(f"{where}: {name} must be a list of turns, each with {role_key} and {text_key}")
    turns = []
    for number, turn in enumerate(value):
        place = f"{where}, turn {number + 1}"
        if not isinstance(turn, dict):
            raise InputError(f"{place} must be an object with {role_key} and {text_key}")
        role = turn.get(role_key)
        if not isinstance(role, str) or role not in _ROLES:
            said = f"{role_key} is missing" if role is None else f"{role_key} is {str(role)[:40]!r}"
            raise InputError(f"{place}: {said}; it must be one of {', '.join(_ROLES)}")
        if turn.get("tool_calls"):
            raise InputError(f"{place} calls tools, which are not supported; write the call into its {text_key}")
        turns.append((_ROLES[role], _content(turn, text_key, place)))
    return turns


def _content(turn: dict[str, Any], key: str, place: str) -> str:
    """The text of a turn: a string, or a list of parts of type text."""
    value = turn.get(key)
    if isinstance(value, list) and all(isinstance(p, dict) and isinstance(p.get("text"), str) for p in value):
        return _string({key: "".join(p["text"] for p in value)}, key, place)
    if isinstance(value, list):
        raise InputError(f"{place}: {key} has parts that are not text")
    return _string(turn, key, place)


def _chat(turns: list[tuple[str, str]], tokenizer: Any, where: str) -> Text:
    if all(role != "assistant" for role, _ in turns):
        raise InputError(f"{where} has no turn of the assistant: nothing to train")
    if getattr(tokenizer, "chat_template", None):
        return _templated(turns, tokenizer, where)
    return _plain(turns, getattr(tokenizer, "eos_token", None) or "")


def _plain(turns: list[tuple[str, str]], end: str) -> Text:
    text, answers = "", []
    for role, content in turns:
        text += f"### {role.capitalize()}:\n"
        begin = len(text)
        text += content + (end if role == "assistant" else "")
        if role == "assistant":
            answers.append((begin, len(text)))
        text += "\n\n"
    return Text(text, tuple(answers))


def _templated(turns: list[tuple[str, str]], tokenizer: Any, where: str) -> Text:
    """As the template writes it. An answer is what the assistant's turn adds behind the prompt to generate it."""
    messages = [{"role": role, "content": content} for role, content in turns]

    def rendered(count: int, asks: bool) -> str:
        text: str = tokenizer.apply_chat_template(messages[:count], tokenize=False, add_generation_prompt=asks)
        return text

    try:
        whole = rendered(len(messages), False)
        answers = []
        for number, (role, _) in enumerate(turns):
            if role != "assistant":
                continue
            before = rendered(number, True) if number else ""
            behind = rendered(number + 1, False)
            if not whole.startswith(behind) or not behind.startswith(before):
                raise InputError(
                    f"{where}: the tokenizer's chat template writes a turn differently when others follow, so its "
                    "answers cannot be told; give prompt and completion instead"
                )
            answers.append((len(before), len(behind)))
    except InputError:
        raise
    except Exception as error:  # whatever a template raises: roles that do not take turns, most of all
        said = first_line(error)
        raise InputError(f"{where}: the tokenizer's chat template refuses it: {said}") from error
    return Text(whole, tuple(answers), is_rendered=True)


def _completed(record: dict[str, Any], tokenizer: Any, where: str) -> Text:
    prompt, completion = record["prompt"], record.get("completion")
    if isinstance(prompt, list) and isinstance(completion, list):
        before = _turns(prompt, "role", "content", f"{where}, prompt")
        return _chat(before + _turns(completion, "role", "content", f"{where}, completion"), tokenizer, where)
    question, answer = _string(record, "prompt", where), _string(record, "completion", where)
    end = getattr(tokenizer, "eos_token", None) or ""
    return Text(question + answer + end, ((len(question), len(question) + len(answer) + len(end)),))
