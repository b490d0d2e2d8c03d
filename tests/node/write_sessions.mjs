// Run by a test: writes conversations with Genkit's own Firestore store, and prints what that store reads of them
// afterwards. Takes {"interval", "conversations": {session: [row]}} as JSON.
import { FirestoreSessionStore } from '@genkit-ai/google-cloud/beta';
import { text } from 'node:stream/consumers';

const given = JSON.parse(await text(process.stdin));
const store = new FirestoreSessionStore({ checkpointInterval: given.interval, snapshotPathPrefix: () => 'acme' });
const found = {};
for (const [sessionId, rows] of Object.entries(given.conversations)) {
  for (const row of rows) {
    await store.saveSnapshot(row.snapshotId, () => row);
  }
  for (const row of rows) {
    found[row.snapshotId] = await store.getSnapshot({ snapshotId: row.snapshotId });
  }
  found[sessionId] = await store.getSnapshot({ sessionId });
}
process.stdout.write(JSON.stringify(found), () => process.exit(0));
