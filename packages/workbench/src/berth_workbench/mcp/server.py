"""The protocol: the official SDK's server, over standard input and output, or HTTP on loopback.

    Model Context Protocol ──> McpServer ──> `Behind.state`, a tool's work in `AnswerTurns`, or a resource
                                  └──> an answer, or a refusal as a result that says what to do

Only the name of a tool that there is not, and what is no message of the protocol, are errors of the protocol itself.
"""

import logging
from collections.abc import Awaitable, Mapping
from importlib.metadata import version
from typing import Any, Final, TypeVar

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from berth.api.codec import ObjectError
from berth.api.user_error import UserError
from berth.config.errors import ConfigError
from berth.framework.blame import PluginBrokenError
from berth_workbench.mcp.pages import AnswerPages
from berth_workbench.mcp.refusals import CallRefused
from berth_workbench.mcp.resources import JSON, RESOURCES, TEMPLATES, Resources
from berth_workbench.mcp.state import UNTRUSTED, Behind
from berth_workbench.mcp.tools import MORE, MORE_LISTED, QuestionTool, ToolAnswer, as_json, more, one_line
from berth_workbench.mcp.turns import AnswerTurns
from berth_workbench.page.access import OwnToken
from berth_workbench.questions.table import all_questions

REFUSALS: Final = (UserError, ValueError, ConfigError, ObjectError, PluginBrokenError)
"""Their messages say what is wrong with what was asked, or with the cluster; anything else is a mistake of ours."""
INSTRUCTIONS: Final = (
    "Ask these tools instead of estimating what a Kubernetes scheduler would do: each answer is worked out by the "
    "scheduler itself, on a copy of the cluster in memory. Nothing can be changed through this server. Every answer "
    "says how old the state is that it is about. Where `isComplete` is false, nothing follows from what is missing. "
    f"{UNTRUSTED} When an error comes, its whatToDo says what to do."
)
PATH: Final = "/mcp"
MAX_SESSIONS: Final = 64
_MARKED: Final = {"berth.dev/untrusted": True}
"""On content that has names and messages of the cluster in it."""

_T = TypeVar("_T")
_log = logging.getLogger("berth_workbench.mcp")
Context = ServerRequestContext[Any, Any]


class McpServer:
    """Answers about one cluster. Make it inside the event loop."""

    __slots__ = ("_behind", "_pages", "_resources", "_tools", "_turns", "protocol")

    def __init__(self, behind: Behind) -> None:
        self._behind = behind
        self._tools = {each.name: QuestionTool(each) for each in all_questions()}
        self._pages = AnswerPages()
        self._turns = AnswerTurns()
        self._resources = Resources(self._pages)
        self.protocol: Server[Any] = Server(
            "berth",
            version=version("berth-workbench"),
            title="Berth",
            description="A Kubernetes scheduler's answers about a cluster.",
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read,
        )

    async def serve_stdio(self) -> None:
        """Serve on standard input and output, until the input ends."""
        async with stdio_server() as (incoming, outgoing):
            await self.protocol.run(incoming, outgoing, self.protocol.create_initialization_options())

    def http_application(self, token: str) -> ASGIApp:
        """Return what serves streamable HTTP at `PATH` to those who show the token; asked by an address of loopback.

        The SDK's application refuses other hosts' names and other pages' origins, and bodies that are too long.
        """
        inner = self.protocol.streamable_http_app(streamable_http_path=PATH, max_sessions=MAX_SESSIONS)
        access = OwnToken(token)

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                scheme, _, shown = Headers(scope=scope).get("authorization", "").partition(" ")
                if scheme.lower() != "bearer" or await access.refusal(shown.strip()) is not None:
                    said = "the token that `berth mcp --http` was started with is needed: Authorization: Bearer TOKEN\n"
                    headers = {"www-authenticate": 'Bearer realm="berth"'}
                    await PlainTextResponse(said, 401, headers)(scope, receive, send)
                    return
            await inner(scope, receive, send)

        return guarded

    # -- tools -------------------------------------------------------------------------------------------------------

    async def _list_tools(self, _context: Context, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[*(each.listed for each in self._tools.values()), MORE_LISTED])

    async def _call(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool, given = self._tools.get(params.name), params.arguments or {}
        if tool is None and params.name != MORE:
            there = ", ".join((*self._tools, MORE))
            raise MCPError(types.INVALID_PARAMS, f"there is no tool {one_line(params.name)[:100]!r}; there are {there}")
        try:
            answer = more(given, self._pages) if tool is None else await self._asked(tool, given, context)
        except CallRefused as refusal:
            return _refused(refusal)
        return types.CallToolResult(
            content=[
                types.TextContent(text=answer.text, _meta=_MARKED),
                types.TextContent(text=as_json(answer.document), _meta=_MARKED),
            ],
            structured_content=answer.document,
        )

    async def _asked(self, tool: QuestionTool, given: Mapping[str, Any], context: Context) -> ToolAnswer:
        """Ask a question. Raises `CallRefused`."""

        async def ask() -> ToolAnswer:
            state = await self._behind()
            work, seconds = tool.prepare(given, state, self._pages, self._turns.kept)
            return await self._turns.take(work, seconds, context.session.report_progress)

        return await _or_refused(ask())

    # -- resources ---------------------------------------------------------------------------------------------------

    async def _list_resources(self, _context: Context, _params: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=RESOURCES)

    async def _list_templates(self, _context: Context, _params: Any) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=TEMPLATES)

    async def _read(self, _context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        async def read() -> str:
            return await self._resources.read(str(params.uri), await self._behind())

        try:
            text = await _or_refused(read())
        except CallRefused as refusal:
            code = types.INVALID_PARAMS if refusal.code == "argument" else types.INTERNAL_ERROR
            raise MCPError(code, one_line(str(refusal)), refusal.document()["error"]) from None
        content = types.TextResourceContents(uri=params.uri, mime_type=JSON, text=text, _meta=_MARKED)
        return types.ReadResourceResult(contents=[content])


async def _or_refused(answer: Awaitable[_T]) -> _T:
    """Return an answer; whatever keeps it from coming is raised as `CallRefused`."""
    try:
        return await answer
    except CallRefused:
        raise
    except REFUSALS as error:
        raise CallRefused("refused", str(error)) from None
    except Exception as bug:  # it ends this call only
        _log.exception("a call has failed")
        raise CallRefused("mistake", f"{type(bug).__name__}: {bug}") from None


def _refused(refusal: CallRefused) -> types.CallToolResult:
    """Return a refusal as a result, which is what agents see and can act on."""
    document = refusal.document()
    text = "\n".join((one_line(str(refusal)), document["error"]["whatToDo"]))
    content: list[types.ContentBlock] = [types.TextContent(text=text, _meta=_MARKED)]
    return types.CallToolResult(content=content, structured_content=document, is_error=True)
