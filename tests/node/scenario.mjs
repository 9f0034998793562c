// Runs one scenario, with the package loaded as an ES module.

import * as quorlock from "../../node/dist/index.mjs";

import { main } from "./scenario/play.cjs";

process.exitCode = await main(quorlock);
