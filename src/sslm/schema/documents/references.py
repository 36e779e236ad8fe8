"""Finding the schemas that references mean, across documents."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast
from urllib.parse import unquote, urljoin

from sslm.errors.schema_documents import (
    MalformedSchemaError,
    SchemaReferenceError,
    SchemaSizeError,
    UnsupportedSchemaError,
)
from sslm.limits import SCHEMA_DOCUMENT_COUNT_MAX
from sslm.schema.documents.document import Json, pointer_text, read_document, shown, told
from sslm.schema.documents.keywords import Keywords, is_schema, subschemas

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True, slots=True, eq=False)
class SchemaNode:
    """One schema of one document; equal only to itself.

    Attributes:
        value: What stands there: an object, true or false.
        pointer: Where, with the document's URI before it if it is not the main one.
        base: The URI that references in it are relative to.
        document: The document's URI; "" for the main one.
        tokens: The pointer in parts.
    """

    value: dict[str, Json] | bool
    pointer: str
    base: str
    document: str
    tokens: tuple[str, ...]

    @property
    def keywords(self) -> Keywords:
        """Its keywords, whose values were checked when it was entered; true and false have none."""
        return cast("Keywords", self.value) if isinstance(self.value, dict) else {}

    def content(self, keyword: str) -> Json:
        """Return what a keyword of it holds."""
        return cast("dict[str, Json]", self.value)[keyword]


class References:
    """Finds the schemas that references mean.

    Args:
        document: The main document, already read.
        others: Documents by URI that it may refer to; each is read when first referred to.

    Raises:
        MalformedSchemaError: If a keyword of a schema in the document takes no such value.
        UnsupportedSchemaError: If a document is written in another dialect.
    """

    def __init__(self, document: Json, others: Mapping[str, object]) -> None:
        self._others = others
        self._documents: dict[str, Json] = {}
        self._nodes: dict[tuple[str, tuple[str, ...]], SchemaNode] = {}
        self._resources: dict[str, SchemaNode] = {}
        self._anchors: dict[tuple[str, str], SchemaNode] = {}
        self._dynamic_anchors: dict[tuple[str, str], SchemaNode] = {}
        self._dynamic_bases: set[str] = set()
        self.root = self._add_document("", document)

    def inside(self, node: SchemaNode, *tokens: str) -> SchemaNode:
        """Return the subschema of *node* at the pointer *tokens*, which exists."""
        return self._nodes[node.document, (*node.tokens, *tokens)]

    def resolve(self, node: SchemaNode, keyword: str, scope: tuple[str, ...]) -> SchemaNode:
        """Return what a ``$ref`` or ``$dynamicRef`` of *node* means.

        Args:
            node: A schema with that keyword.
            keyword: Which of the two.
            scope: The resources with dynamic anchors through which evaluation came here, from
                the outermost on; see :meth:`entered`.

        Raises:
            SchemaReferenceError: If it leads nowhere.
        """
        reference = str(node.content(keyword))
        found = self._target(node, keyword, reference)
        name = unquote(reference.partition("#")[2])
        if keyword == "$dynamicRef" and (found.base, name) in self._dynamic_anchors:
            for base in scope:
                if (base, name) in self._dynamic_anchors:
                    return self._dynamic_anchors[base, name]
        return found

    def entered(self, node: SchemaNode, scope: tuple[str, ...]) -> tuple[str, ...]:
        """Return the dynamic scope inside *node*, when it was *scope* outside."""
        if node.base in self._dynamic_bases and node.base not in scope:
            return (*scope, node.base)
        return scope

    def _target(self, node: SchemaNode, keyword: str, reference: str) -> SchemaNode:
        at = shown(f"{node.pointer}/{keyword}")
        uri, _, fragment = reference.partition("#")
        try:
            uri = urljoin(node.base, uri) if uri else node.base
        except ValueError as error:
            raise SchemaReferenceError(at, shown(reference), "it is not a URI") from error
        resource = self._resources.get(uri) or self._other(uri)
        if resource is None:
            reason = f"no document {shown(uri)!r} was given, and none is fetched"
            raise SchemaReferenceError(at, shown(reference), reason)
        name = unquote(fragment)
        if not name:
            return resource
        if not name.startswith("/"):
            found = self._anchors.get((resource.base, name))
        else:
            found = self._at_pointer(resource, name)
        if found is None:
            raise SchemaReferenceError(at, shown(reference), "no schema stands there")
        return found

    def _other(self, uri: str) -> SchemaNode | None:
        if uri not in self._others:
            return None
        if len(self._documents) >= SCHEMA_DOCUMENT_COUNT_MAX:
            raise SchemaSizeError("documents", SCHEMA_DOCUMENT_COUNT_MAX, shown(uri))
        root = self._add_document(uri, read_document(self._others[uri]))
        # What it is fetched by names it too, whatever it calls itself.
        self._resources.setdefault(uri, root)
        return root

    def _add_document(self, uri: str, document: Json) -> SchemaNode:
        if not is_schema(document):
            raise MalformedSchemaError(shown(uri), "", told(document), "an object, true or false")
        self._documents[uri] = document
        node = self._add(uri, (), document, uri, is_known=True)
        self._resources.setdefault(uri, node)
        return node

    def _add(
        self, document: str, tokens: tuple[str, ...], value: Json, base: str, *, is_known: bool
    ) -> SchemaNode:
        """Enter a schema and all those inside it; only where schemas must be do they have names."""
        waiting = [(tokens, value, base)]
        for at, found, outer in waiting:
            node = self._node(document, at, found, outer, is_known=is_known)
            waiting += [(inner, item, node.base) for inner, item in subschemas(found, at)]
        return self._nodes[document, tokens]

    def _node(
        self, document: str, tokens: tuple[str, ...], value: Json, base: str, *, is_known: bool
    ) -> SchemaNode:
        assert isinstance(value, dict | bool)
        pointer = document + pointer_text(tokens)
        identifier = value.get("$id") if isinstance(value, dict) else None
        if isinstance(identifier, str) and is_known:
            base = _joined(base, identifier.rstrip("#"), pointer)
        node = SchemaNode(value, pointer, base, document, tokens)
        self._nodes[document, tokens] = node
        if is_known and isinstance(value, dict):
            self._name(node, value, is_resource=identifier is not None)
        return node

    def _name(self, node: SchemaNode, value: dict[str, Json], *, is_resource: bool) -> None:
        dialect = value.get("$schema", DIALECT)
        if isinstance(dialect, str) and dialect.rstrip("#") != DIALECT:
            hint = f"only the dialect {DIALECT} is known; leave it out or write that"
            raise UnsupportedSchemaError(shown(node.pointer + "/$schema"), "$schema", hint)
        if is_resource and self._resources.setdefault(node.base, node) is not node:
            where = shown(node.pointer)
            found, expected = told(value["$id"]), "a URI that no other schema has"
            raise MalformedSchemaError(where, "$id", found, expected)
        for keyword in ("$anchor", "$dynamicAnchor"):
            name = value.get(keyword)
            if not isinstance(name, str):
                continue
            if self._anchors.setdefault((node.base, name), node) is not node:
                where = shown(node.pointer)
                expected = "a name that no other schema has"
                raise MalformedSchemaError(where, keyword, told(name), expected)
            if keyword == "$dynamicAnchor":
                self._dynamic_anchors[node.base, name] = node
                self._dynamic_bases.add(node.base)

    def _at_pointer(self, resource: SchemaNode, pointer: str) -> SchemaNode | None:
        """Return the schema at a pointer from *resource*, which may be where none is expected."""
        value: Json = resource.value
        tokens, base = resource.tokens, resource.base
        for part in pointer[1:].split("/"):
            token = part.replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict) and token in value:
                value = value[token]
            elif isinstance(value, list) and token.isascii() and token.isdigit():
                if len(token) > 6 or int(token) >= len(value):
                    return None
                value = value[int(token)]
            else:
                return None
            tokens = (*tokens, token)
            known = self._nodes.get((resource.document, tokens))
            base = known.base if known is not None else base
        found = self._nodes.get((resource.document, tokens))
        if found is None and is_schema(value):
            found = self._add(resource.document, tokens, value, base, is_known=False)
        return found


def _joined(base: str, reference: str, pointer: str) -> str:
    try:
        return urljoin(base, reference)
    except ValueError as error:
        raise MalformedSchemaError(shown(pointer), "$id", told(reference), "a URI") from error
