"""The form of an annotation."""

from __future__ import annotations

import collections
import collections.abc as abc
import datetime
import enum
import inspect
import re
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from segue.errors import InvalidEvent
from segue.events.codec import encode_json
from segue.events.json_values import to_json
from segue.typed import foreign
from segue.typed.annotations import Scope
from segue.typed.classes import Part, constructor_problem, own_doc, parts_of, qualifier
from segue.typed.containers import Items, Mapping, Tuple
from segue.typed.described import LENGTH, ORDER, ZONE, Words, words_of
from segue.typed.docstrings import documented
from segue.typed.forms import (
    Anything,
    Described,
    Form,
    How,
    Indescribable,
    Later,
    Limited,
    Named,
    OneOf,
    Union,
)
from segue.typed.records import Field, Record
from segue.typed.scalars import SCALARS, Scalar


def form_of(annotation: Any, scope: Scope | None = None) -> Form:
    """The form of an annotation; text in it is looked up in `scope`.

    Raises `Indescribable`, and `Unresolved` for a name that is not there.
    """
    try:
        return Forms().form(annotation, scope or Scope({}, {}))
    except RecursionError as error:
        raise Indescribable(f"{_name(annotation)} is nested without end") from error


def json_default(form: Form, default: Any) -> Any:
    """A default as the schema can say it; UNSET for one that has no JSON form."""
    try:
        image = to_json(default._asdict() if hasattr(default, "_asdict") else default)
        made = form.convert(image, "", How(lenient=False, recorded=False))
        same = made == (list(default) if isinstance(made, list) else default)
    except Exception:  # whatever a value's own methods raise: the schema then says nothing of it
        return msgspec.UNSET
    return image if same is True else msgspec.UNSET


_ANYTHING = (Any, object, inspect.Parameter.empty)
_LISTS: dict[Any, Callable[[list[Any]], Any]] = {
    list: list,
    collections.deque: collections.deque,
    abc.Sequence: list,
    abc.MutableSequence: list,
    abc.Collection: list,
    abc.Iterable: list,
}
_SETS: dict[Any, Callable[[list[Any]], Any]] = {
    set: set,
    frozenset: frozenset,
    abc.Set: set,
    abc.MutableSet: set,
}
_DICTS = (dict, abc.Mapping, abc.MutableMapping)
_QUALIFIERS = ("Required", "NotRequired", "ReadOnly", "Final")
_UNIONS = (typing.Union, types.UnionType)


class Forms:
    """Of the annotations of one schema: a class in it has one form, however often it is used."""

    def __init__(self) -> None:
        self._made: dict[Any, Form] = {}
        """Forms by type; `Later` while one is being made."""

    def form(self, annotation: Any, scope: Scope) -> Form:
        if isinstance(annotation, str):
            annotation = scope.resolve(annotation)
        if isinstance(annotation, typing.ForwardRef):  # an alias that names itself
            key = (annotation.__forward_arg__, id(scope.module))
            return self._once(
                key, lambda: self._named(annotation.__forward_arg__, scope.resolve(annotation), scope)
            )
        annotation = _substituted(annotation, scope)
        if any(annotation is anything for anything in _ANYTHING):
            return Anything()
        if isinstance(annotation, typing.TypeVar):
            if annotation.__constraints__:
                return self._union(annotation.__constraints__, scope)
            return self.form(annotation.__bound__ or Any, scope)
        if isinstance(annotation, typing.NewType):
            return self.form(annotation.__supertype__, scope)
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if origin is typing.Annotated:
            return self._annotated(annotation, scope)
        if qualifier(annotation) in _QUALIFIERS:
            return self.form(arguments[0], scope)
        if origin is typing.Literal:
            return _one_of(_name(annotation), arguments)
        if origin in _UNIONS:
            return self._union(arguments, scope)
        if type(origin or annotation).__name__ == "TypeAliasType":
            return self._alias(annotation, scope)
        return self._class(annotation, origin or annotation, arguments, scope)

    def _class(self, annotation: Any, cls: Any, arguments: Sequence[Any], scope: Scope) -> Form:
        if cls is None or cls is typing.LiteralString:
            cls = type(None) if cls is None else str
        if not isinstance(cls, type):
            raise Indescribable(f"{_name(annotation)} has no form in JSON")
        if cls in SCALARS:
            return SCALARS[cls]
        if cls in _LISTS or cls in _SETS:
            return self._items(cls, arguments, scope)
        if cls is tuple:
            return self._tuple(annotation, arguments, scope)
        if cls in _DICTS:
            key, item = arguments or (str, Any)
            return Mapping(self._key(key, scope), self.form(item, scope))
        if issubclass(cls, enum.Enum):
            return _one_of(_name(cls), list(cls), documented(own_doc(cls)).text)
        if any("__get_pydantic_core_schema__" in vars(base) for base in cls.__mro__):
            return self._once(_key(annotation), lambda: foreign.pydantic_form(annotation))
        return self._once(_key((cls, *arguments)), lambda: self._record(annotation, cls, arguments, scope))

    def _once(self, key: Any, make: Callable[[], Form]) -> Form:
        """The form under that key, made once; inside its own making, what will be it."""
        if key in self._made:
            return self._made[key]
        later = Later()
        self._made[key] = later
        later.form = self._made[key] = make()
        return later.form

    def _named(self, name: str, annotation: Any, scope: Scope) -> Form:
        return Named(name, self.form(annotation, scope))

    def _alias(self, annotation: Any, scope: Scope) -> Form:
        alias = typing.get_origin(annotation) or annotation
        if words_of(getattr(alias.__value__, "__metadata__", ())).foreign:
            return self._once(_key(annotation), lambda: foreign.pydantic_form(annotation))
        variables = dict(zip(alias.__type_params__, typing.get_args(annotation), strict=False))
        inside = Scope(scope.module, scope.local, {**scope.variables, **variables})
        return self._once(_key(annotation), lambda: self._named(alias.__name__, alias.__value__, inside))

    def _items(self, cls: Any, arguments: Sequence[Any], scope: Scope) -> Form:
        (item,) = arguments or (Any,)
        if cls not in _SETS:
            return Items(self.form(item, scope), _LISTS[cls])
        inner = typing.get_origin(item) or item
        if isinstance(inner, type) and inner is not object and getattr(inner, "__hash__", None) is None:
            raise Indescribable(
                f"a set cannot hold {_name(item)}, which has no hash: use list[{_name(item)}]"
            )
        return Items(self.form(item, scope), _SETS[cls], unique=True)

    def _tuple(self, annotation: Any, arguments: Sequence[Any], scope: Scope) -> Form:
        if annotation in (tuple, typing.Tuple):  # noqa: UP006 a user's annotation may be it
            return Items(Anything(), tuple)
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return Items(self.form(arguments[0], scope), tuple)
        return Tuple([self.form(item, scope) for item in arguments])

    def _key(self, annotation: Any, scope: Scope) -> Form:
        form = self.form(annotation, scope)
        if not _can_be_key(form):
            raise Indescribable(
                f"the keys of an object are text in JSON: {_name(annotation)} cannot be a key"
            )
        return form

    def _union(self, arguments: Sequence[Any], scope: Scope) -> Form:
        members = [self.form(item, scope) for item in arguments if item is not msgspec.UnsetType]
        return members[0] if len(members) == 1 else Union(members)

    def _annotated(self, annotation: Any, scope: Scope) -> Form:
        words = words_of(annotation.__metadata__)
        if words.foreign:
            return foreign.pydantic_form(annotation)
        form = _limited(self.form(annotation.__origin__, scope), words)
        return Described(form, words.description, words.extra) if words.description or words.extra else form

    def _record(self, annotation: Any, cls: type, arguments: Sequence[Any], scope: Scope) -> Form:
        parts = parts_of(cls, scope)
        if parts is None:
            return foreign.msgspec_form(annotation, _name(annotation))
        if problem := constructor_problem(cls, parts):
            raise Indescribable(f"{_name(cls)} {problem}")
        doc = documented(own_doc(cls))
        inside = scope.inside(cls, arguments)
        return Record(
            _name(annotation),
            [self._field(cls, part, doc.parameters, inside) for part in parts.parts],
            parts.make,
            description=doc.text,
            tag=parts.tag,
            positional=parts.positional,
            derived=parts.derived,
        )

    def _field(self, cls: type, part: Part, said: dict[str, str], scope: Scope) -> Field:
        try:
            form = self.form(part.annotation, scope)
        except Indescribable as error:
            raise Indescribable(f"{part.name!r} of {_name(cls)}: {error}") from error
        default = msgspec.UNSET if part.default is msgspec.UNSET else json_default(form, part.default)
        return Field(part.name, part.key, form, part.required, said.get(part.name, ""), default)


def _limited(form: Form, words: Words) -> Form:
    if not words.limits:
        return form
    if isinstance(form, Union):  # each limit is of the members that can have it
        return Union(
            [member if member is SCALARS[type(None)] else _limited(member, words) for member in form.members]
        )
    able = _possible_limits(form)
    for name in words.limits:
        if name not in able:
            raise Indescribable(f"the limit {name} does not apply to {form.expected}")
    return Limited(form, words.limits)


def _possible_limits(form: Form) -> Sequence[str]:
    while isinstance(form, (Described, Limited, Named)):
        form = form.inner
    if isinstance(form, (Items, Mapping)):
        return LENGTH
    if not isinstance(form, Scalar):
        return ()
    if form.cls is str:
        return (*ORDER, *LENGTH, "pattern")
    if form.cls in (datetime.datetime, datetime.time):
        return (*ORDER, *ZONE)
    return LENGTH if form.cls in (bytes, bytearray) else ORDER


def _one_of(name: str, values: Sequence[Any], description: str = "") -> Form:
    try:
        members = [(to_json(value), value) for value in values]
    except InvalidEvent as error:
        raise Indescribable(f"{name} has a value without a form in JSON: {error}") from error
    if not members or len({encode_json(image) for image, _ in members}) < len(members):
        raise Indescribable(f"{name} has no values, or two of the same form in JSON")
    return OneOf(members, description)


def _can_be_key(form: Form) -> bool:
    if isinstance(form, Union):
        return all(_can_be_key(member) for member in form.members)
    if isinstance(form, (Described, Limited)):
        return _can_be_key(form.inner)
    return isinstance(form, (Scalar, OneOf, Anything))


def _substituted(annotation: Any, scope: Scope) -> Any:
    """With the type variables replaced that the scope knows."""
    if isinstance(annotation, typing.TypeVar):
        return scope.variables.get(annotation, annotation)
    if not scope.variables or isinstance(annotation, type) or not getattr(annotation, "__parameters__", ()):
        return annotation
    return annotation[tuple(scope.variables.get(item, item) for item in annotation.__parameters__)]


def _key(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:  # metadata that has no hash
        return repr(value)
    return value


def _name(annotation: Any) -> str:
    if isinstance(annotation, type) and not typing.get_args(annotation):
        return annotation.__qualname__.rpartition(".")[2]
    return re.sub(r"\b[\w.]+\.(<locals>\.)?", "", str(annotation))
