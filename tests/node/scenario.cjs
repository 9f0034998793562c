// Runs one scenario, with the package loaded by `require`.

const { main } = require("./scenario/play.cjs");

main(require("../../node/dist/index.js")).then((status) => {
  process.exitCode = status;
});
