"""Run by a test, with Genkit's packages: drives a server of ours with Genkit's own client, and prints what it saw, one
entry a scenario. Takes {"url", "closedUrl", "user", "text"} as JSON."""

import asyncio
import json
import sys
import traceback
from typing import Any

from genkit import GenkitError
from genkit.exp.agent import AgentError, remote_agent

GIVEN: dict[str, str] = json.load(sys.stdin) if __name__ == "__main__" else {}


def agent(**options: Any) -> Any:
    """The agent under test, as its user."""
    headers = {"x-user-id": GIVEN["user"]}
    return remote_agent(GIVEN["url"], **{"headers": headers, "state_management": "server", **options})


async def sends() -> Any:
    chat = agent().chat()
    first, second = await chat.send("one"), await chat.send("two")
    return {
        "texts": [first.text, second.text],
        "reasons": [first.finish_reason, second.finish_reason],
        "isOneSession": first.session_id == second.session_id,
        "messages": [message.text for message in chat.messages],
    }


async def streams() -> Any:
    turn = agent().chat().send_stream(GIVEN["text"])
    texts = [chunk.text async for chunk in turn if chunk.text]
    return {"pieces": len(texts), "streamed": "".join(texts), "text": (await turn).text}


async def custom() -> Any:
    chat = agent().chat()
    seen = [chunk.custom async for chunk in chat.send_stream('/custom {"n": 1}\n/custom {"n": 2}') if chunk.custom]
    return {"seen": seen, "state": chat.state}


async def artifacts() -> Any:
    chat = agent().chat()
    response = await chat.send("/artifact plan first\n/artifact plan second")
    return {"held": dumped(chat.artifacts), "told": dumped(response.artifacts)}


async def interrupts() -> Any:
    chat = agent().chat()
    asked = await chat.send('/interrupt confirm {"sure": true}')
    [interrupt] = asked.interrupts
    answered = await chat.resume(respond=[interrupt.respond({"yes": True})])
    return {"reason": asked.finish_reason, "input": interrupt.input, "answered": answered.text}


async def loads() -> Any:
    first = await agent().chat().send("hello")
    by_session = await agent().load_chat(session_id=first.session_id)
    loaded = len(by_session.messages)
    second = await by_session.send("more")
    found = await agent().get_snapshot(snapshot_id=second.snapshot_id)
    return {
        "messages": loaded,
        "parent": found.parent_id == first.snapshot_id,
        "status": found.status,
        "isSameSession": found.session_id == first.session_id == found.state.session_id,
    }


async def names() -> Any:
    session_id = f"named by {GIVEN['user']}"
    first = await agent().chat(session_id=session_id).send("one")
    second = await agent().chat(session_id=session_id).send("two")
    loaded = await agent().load_chat(session_id=session_id)
    return {"ids": [first.session_id, second.session_id] == [session_id] * 2, "messages": len(loaded.messages)}


async def detaches() -> Any:
    task = await agent().chat().detach("/sleep 0.2\nlater")
    done = await task.wait(interval=0.05)
    return {"status": done.status, "text": done.state.messages[-1].text}


async def aborts() -> Any:
    task = await agent().chat().detach("/sleep 30\nnever")
    previous = await task.abort()
    done = await task.wait(interval=0.05)
    return {"previous": previous, "status": done.status}


async def fails() -> Any:
    chat = agent().chat()
    await chat.send("fine")
    failed = await failure(chat.send("/fail on purpose"))
    return {"failed": failed, "text": (await chat.send("on we go")).text, "messages": len(chat.messages)}


async def missing() -> Any:
    found = await agent().get_snapshot(snapshot_id="nowhere")
    return {"get": found, "abort": await agent().abort("nowhere"), "resume": await failure(resumed())}


def resumed() -> Any:
    return agent().chat(snapshot_id="nowhere").send("hi")


async def headers() -> Any:
    async def later() -> dict[str, str]:
        await asyncio.sleep(0)
        return {"x-user-id": "somebody else"}

    mine = await agent().chat().send("mine")
    return {"hidden": await agent(headers=later).get_snapshot(snapshot_id=mine.snapshot_id)}


async def strangers() -> Any:
    closed = remote_agent(GIVEN["closedUrl"], state_management="server")
    return {"turn": await failure(closed.chat().send("hi")), "get": await failure(closed.get_snapshot(snapshot_id="x"))}


async def failure(turn: Any) -> Any:
    try:
        await turn
    except (AgentError, GenkitError) as error:
        return {"status": error.status, "message": str(error)}
    return None


def dumped(models: Any) -> Any:
    return [model.model_dump(by_alias=True, exclude_none=True, mode="json") for model in models]


SCENARIOS = (
    *(sends, streams, custom, artifacts, interrupts, loads, names),
    *(detaches, aborts, fails, missing, headers, strangers),
)


async def main() -> dict[str, Any]:
    """What each scenario saw."""
    results: dict[str, Any] = {}
    for scenario in SCENARIOS:
        try:
            results[scenario.__name__] = await scenario()
        except Exception:
            results[scenario.__name__] = {"unexpected": traceback.format_exc()[-2000:]}
    return results


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main())))
