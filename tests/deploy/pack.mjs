// Packs functions/ with the Firebase CLI's own packer, by firebase.json, and prints the path of the archive.
// Given: the root of the repository. Internal modules of the CLI, which package-lock.json pins.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const require = createRequire(import.meta.url);
const { normalizeAndValidate } = require("firebase-tools/lib/functions/projectConfig");
const { prepareFunctionsUpload } = require("firebase-tools/lib/deploy/functions/prepareFunctionsUpload");

const root = process.argv[2];
const [config] = normalizeAndValidate(JSON.parse(readFileSync(join(root, "firebase.json"))).functions);
const packed = await prepareFunctionsUpload(root, join(root, config.source), config, [], undefined, {});
console.log(packed.pathToSource);
