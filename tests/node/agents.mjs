// Run by a test: drives a server of ours with Genkit's own client, and prints what that client saw, one entry a scenario.
// Takes {"url", "cutUrl", "user", "text"} as JSON.
import { remoteAgent } from 'genkit/beta/client';
import { text } from 'node:stream/consumers';

const given = JSON.parse(await text(process.stdin));
const headers = { 'x-user-id': given.user };
const options = { url: given.url, stateManagement: 'server', headers };
const said = (words) => ({ message: { role: 'user', content: [{ text: words }] } });

const scenarios = {
  async sends() {
    const chat = remoteAgent(options).chat();
    const first = await chat.send('one');
    const second = await chat.send('two');
    return {
      texts: [first.text, second.text],
      reasons: [first.finishReason, second.finishReason],
      isOneSession: first.sessionId === second.sessionId,
      snapshots: new Set([first.snapshotId, second.snapshotId]).size,
      messages: chat.messages.length,
    };
  },
  async streams() {
    const turn = remoteAgent(options).chat().sendStream(given.text);
    const texts = [];
    for await (const chunk of turn.stream) texts.push(chunk.text);
    return { pieces: texts.filter(Boolean).length, streamed: texts.join(''), text: (await turn.response).text };
  },
  async cut() {
    const response = await remoteAgent({ ...options, url: given.cutUrl }).chat().send(given.text);
    return { text: response.text };
  },
  async custom() {
    const chat = remoteAgent(options).chat();
    const turn = chat.sendStream('/custom {"n": 1, "list": [1]}\n/custom {"n": 2, "list": [1, 2]}');
    const seen = [];
    for await (const chunk of turn.stream) if (chunk.raw.customPatch) seen.push([chunk.raw.customPatch, chunk.custom]);
    await turn.response;
    return { seen, state: chat.state };
  },
  async artifacts() {
    const chat = remoteAgent(options).chat();
    const turn = chat.sendStream('/artifact plan first\n/artifact plan second\n/artifact notes x');
    const streamed = [];
    for await (const chunk of turn.stream) if (chunk.artifact) streamed.push(chunk.artifact);
    return { streamed, held: chat.artifacts, told: (await turn.response).artifacts };
  },
  async interrupts() {
    const chat = remoteAgent(options).chat();
    const asked = await chat.send('/interrupt confirm {"sure": true}');
    const [interrupt] = asked.interrupts;
    const answered = await chat.resume({ respond: [interrupt.respond({ yes: true })] });
    return { reason: asked.finishReason, input: interrupt.input, answered: answered.text, then: answered.finishReason };
  },
  async loads() {
    const agent = remoteAgent(options);
    const first = await agent.chat().send('/custom {"kept": true}\nhello');
    const bySnapshot = await agent.loadChat({ snapshotId: first.snapshotId });
    const bySession = await agent.loadChat({ sessionId: first.sessionId });
    const loaded = [bySnapshot.messages.length, bySession.messages.length];
    const next = await bySession.send('more');
    const snapshot = await agent.getSnapshot(next.snapshotId);
    return {
      messages: loaded,
      state: bySnapshot.state,
      parent: snapshot.parentId === first.snapshotId,
      status: snapshot.status,
      ids: snapshot.state.messages.every((message) => typeof message.metadata.id === 'string'),
      isSameSession: snapshot.sessionId === first.sessionId && snapshot.state.sessionId === first.sessionId,
    };
  },
  async names() {
    const agent = remoteAgent(options);
    const sessionId = `my session ${given.user}`;
    const first = await agent.chat({ sessionId }).send('one');
    const second = await agent.chat({ sessionId }).send('two');
    const loaded = await agent.loadChat({ sessionId });
    return { ids: [first.sessionId, second.sessionId, loaded.sessionId], messages: loaded.messages.length, sessionId };
  },
  async missing() {
    const agent = remoteAgent(options);
    return { get: await failure(agent.getSnapshot('nowhere')), abort: (await agent.abort('nowhere')) ?? null };
  },
  async detaches() {
    const chat = remoteAgent(options).chat();
    const task = await chat.detach('/sleep 0.2\nlater');
    const pending = await remoteAgent(options).getSnapshot(task.snapshotId);
    const done = await task.wait({ intervalMs: 50 });
    const last = done.state.messages.at(-1);
    return { pending: pending.status, hasState: 'state' in pending, status: done.status, text: last.content[0].text };
  },
  async aborts() {
    const task = await remoteAgent(options).chat().detach('/sleep 30\nnever');
    const previous = await task.abort();
    const after = await task.wait({ intervalMs: 50 });
    return { previous, status: after.status, again: await task.abort() };
  },
  async fails() {
    const chat = remoteAgent(options).chat();
    const good = await chat.send('fine');
    const failed = await failure(chat.send('/fail on purpose'));
    const next = await chat.send('on we go');
    return { failed, isKept: chat.messages.length, text: next.text, same: next.sessionId === good.sessionId };
  },
  async failsFirst() {
    const chat = remoteAgent(options).chat({ sessionId: `first ${given.user}` });
    const failed = await failure(chat.send('/fail at once'));
    const next = await chat.send('again');
    return { failed, text: next.text, messages: chat.messages.length };
  },
  async misuses() {
    const chat = remoteAgent(options).chat({ state: { custom: { n: 1 } } });
    return { failed: await failure(chat.send('hi')) };
  },
  async branches() {
    const agent = remoteAgent(options);
    const root = await agent.chat().send('root');
    const texts = [];
    for (const words of ['left', 'right']) {
      const chat = await agent.loadChat({ snapshotId: root.snapshotId });
      await chat.send(words);
      texts.push(chat.messages.map((message) => message.content[0].text));
    }
    return { texts };
  },
  async asyncHeaders() {
    const calls = [];
    const later = async () => (calls.push(1), { 'x-user-id': `${given.user}-other` });
    const mine = await remoteAgent(options).chat().send('mine');
    const other = remoteAgent({ ...options, headers: later });
    const hidden = await failure(other.getSnapshot(mine.snapshotId));
    const { text: theirs } = await other.chat().send('theirs');
    return { hidden, calls: calls.length, text: theirs };
  },
  async strangers() {
    const closed = remoteAgent({ url: given.closedUrl, stateManagement: 'server' });
    return { turn: await failure(closed.chat().send('hi')), get: await failure(closed.getSnapshot('x')) };
  },
  async echoesAMessageId() {
    const agent = remoteAgent(options);
    const message = { ...said('named').message, metadata: { id: 'my-id', mood: 'good' } };
    const turn = await agent.chat().send({ message });
    const snapshot = await agent.getSnapshot(turn.snapshotId);
    return { message: snapshot.state.messages[0] };
  },
};

async function failure(promise) {
  try {
    return { value: await promise };
  } catch (error) {
    return { status: error.status ?? null, message: error.message };
  }
}

const results = {};
for (const [name, scenario] of Object.entries(scenarios)) {
  try {
    results[name] = await scenario();
  } catch (error) {
    results[name] = { unexpected: String(error.stack ?? error) };
  }
}
process.stdout.write(JSON.stringify(results), () => process.exit(0));
