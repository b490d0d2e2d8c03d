// Reads what is deployed as `firebase deploy` does before it asks Google, and prints what it made of it.
// Given: the root of the repository. Internal modules of the CLI, which package-lock.json pins.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const require = createRequire(import.meta.url);
const lib = "firebase-tools/lib";
const { detectFromYaml } = require(`${lib}/deploy/functions/runtimes/discovery`);
const { toBackend } = require(`${lib}/deploy/functions/build`);
const { allEndpoints, empty } = require(`${lib}/deploy/functions/backend`);
const { endpointsAreValid } = require(`${lib}/deploy/functions/validate`);
const { FirestoreApi } = require(`${lib}/firestore/api`);

const root = process.argv[2];
const config = JSON.parse(readFileSync(join(root, "firebase.json")));
const [{ source, runtime }] = config.functions;

const backend = toBackend(await detectFromYaml(join(root, source), "demo-x", runtime), {});
endpointsAreValid(backend, empty());

const api = new FirestoreApi();
const indexes = api.upgradeOldSpec(JSON.parse(readFileSync(join(root, config.firestore.indexes))));
api.validateSpec(indexes);

console.log(JSON.stringify({ endpoints: allEndpoints(backend), indexes }));
