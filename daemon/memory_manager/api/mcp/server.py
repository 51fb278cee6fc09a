"""The official MCP SDK behind /mcp: its handlers are our tools. The only module that imports it.

Stateless and with JSON answers; the caller comes with each request as ``request.state.call``.
Contract: xmemo.md 11.1, 11.2.
"""

from __future__ import annotations

import logging
from typing import Any, cast

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    TextContent,
)

from memory_manager.api.calls import Call
from memory_manager.api.checks import check_scope, named_error
from memory_manager.api.errors import RequestError
from memory_manager.api.mcp.catalogue import LISTED, TOOLS, listed_profile
from memory_manager.api.mcp.introduction import INSTRUCTIONS, SERVER_NAME, SERVER_TITLE
from memory_manager.api.mcp.prompts import PROMPTS
from memory_manager.api.mcp.running import labelled, slim
from memory_manager.api.mcp.tool import ToolCall
from memory_manager.api.rules import MAX_BODY_BYTES
from memory_manager.base.errors import MemlocketError
from memory_manager.security.event_log import level_of, log_event
from memory_manager.service.daemon import Daemon

_log = logging.getLogger(__name__)

Context = ServerRequestContext[Any, Any]


def build_manager(daemon: Daemon) -> StreamableHTTPSessionManager:
    """A session manager that keeps no sessions; ``run()`` it once, for as long as it serves."""
    # the SDK's messages quote the input; the log filter drops them, and this spares the work
    logging.getLogger("mcp").setLevel(logging.ERROR)
    handlers = _Handlers(daemon)
    server: Server[Any] = Server(
        SERVER_NAME,
        version=daemon.version,
        title=SERVER_TITLE,
        instructions=INSTRUCTIONS,
        # no schema of ours asks for headers; without this the SDK lists all tools at each call
        get_tool_input_schema=lambda _name: None,
    )
    server.middleware.clear()  # spans of every call, with its method, for a tracer of the process
    server.add_request_handler("tools/list", PaginatedRequestParams, handlers.list_tools)
    server.add_request_handler("tools/call", CallToolRequestParams, handlers.call_tool)
    server.add_request_handler("prompts/list", PaginatedRequestParams, handlers.list_prompts)
    server.add_request_handler("prompts/get", GetPromptRequestParams, handlers.get_prompt)
    server.add_request_handler("resources/list", PaginatedRequestParams, handlers.list_resources)
    server.add_request_handler("resources/read", ReadResourceRequestParams, handlers.read_resource)
    server.add_request_handler(
        "resources/templates/list", PaginatedRequestParams, handlers.list_templates
    )
    return StreamableHTTPSessionManager(
        server, json_response=True, stateless=True, max_request_body_size=MAX_BODY_BYTES
    )


class _Handlers:
    """What the SDK calls."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._listed = {
            profile: ListToolsResult.model_validate({"tools": tools})
            for profile, tools in LISTED.items()
        }
        self._prompts = ListPromptsResult.model_validate(
            {"prompts": [prompt.listed() for prompt in PROMPTS.values()]}
        )

    async def list_tools(
        self, context: Context, _params: PaginatedRequestParams
    ) -> ListToolsResult:
        """The tools of the caller's profile."""
        return self._listed[await listed_profile(self._daemon, _call_of(context))]

    async def call_tool(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        """Run a tool; what it refuses is a result, so that the model reads the reason."""
        tool = TOOLS.get(params.name)
        if tool is None:
            raise MCPError(INVALID_PARAMS, "There is no tool of that name.")
        call = _call_of(context)
        arguments: dict[str, object] = params.arguments or {}
        try:
            if call.caller.unchecked is not None:
                raise call.caller.unchecked
            check_scope(call.caller, tool.access)
            asked = ToolCall(self._daemon, labelled(call, arguments), tool.name, arguments)
            answer = await tool.run(asked)
        except MemlocketError as error:
            return _refused(error, call)
        except ExceptionGroup as several:
            named = named_error(several)
            return _refused(named, call) if named else _bug(several, call)
        except Exception as error:  # the border: a bug becomes a typed answer and a log line
            return _bug(error, call)
        return CallToolResult(
            content=[TextContent(text=answer.text)],
            structured_content={"result": slim(answer.body)},
        )

    async def list_prompts(
        self, _context: Context, _params: PaginatedRequestParams
    ) -> ListPromptsResult:
        return self._prompts

    async def get_prompt(
        self, _context: Context, params: GetPromptRequestParams
    ) -> GetPromptResult:
        prompt = PROMPTS.get(params.name)
        if prompt is None:
            raise MCPError(INVALID_PARAMS, "There is no prompt of that name.")
        arguments = params.arguments or {}
        if not arguments.get(prompt.required):
            raise MCPError(INVALID_PARAMS, f"The prompt needs {prompt.required}.")
        text = prompt.message(arguments)
        message = {"role": "user", "content": {"type": "text", "text": text}}
        return GetPromptResult.model_validate(
            {"description": prompt.summary, "messages": [message]}
        )

    async def list_resources(
        self, _context: Context, _params: PaginatedRequestParams
    ) -> ListResourcesResult:
        return ListResourcesResult(resources=[])

    async def list_templates(
        self, _context: Context, _params: PaginatedRequestParams
    ) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult(resource_templates=[])

    async def read_resource(
        self, _context: Context, _params: ReadResourceRequestParams
    ) -> ReadResourceResult:
        raise MCPError(INVALID_PARAMS, "There is no such resource.")


def _call_of(context: Context) -> Call:
    """The verified request; the mount put it there."""
    request = cast("Any", context.request)
    return cast("Call", request.state.call)


def _bug(error: Exception, call: Call) -> CallToolResult:
    log_event(_log, "tool_failed", level=logging.ERROR, error=error, request_id=call.request_id)
    return _refusal(MemlocketError())


def _refused(error: MemlocketError, call: Call) -> CallToolResult:
    if not isinstance(error, RequestError):
        log_event(
            _log, "tool_refused", level=level_of(error), error=error, request_id=call.request_id
        )
    return _refusal(error)


def _refusal(error: MemlocketError) -> CallToolResult:
    """A result that tells the model what to do about it."""
    hint = f" {error.hint}" if error.hint else ""
    return CallToolResult(
        content=[TextContent(text=f"XMemo error: {error.message}{hint}")],
        structured_content={"error": {"code": error.code, "message": error.message}},
        is_error=True,
    )
