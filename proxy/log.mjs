// One JSON object per line on stdout, in the shape of the portal's own logs.

import { format } from "node:util";

const LEVELS = ["debug", "info", "warn", "error"];

export function makeLog(least) {
  const from = Math.max(LEVELS.indexOf(least), 0);
  const at = (level) =>
    LEVELS.indexOf(level) < from
      ? () => {}
      : (...parts) => {
          const timestamp = new Date().toISOString();
          const event = format(...parts);
          process.stdout.write(JSON.stringify({ event, level, logger: "proxy", timestamp }) + "\n");
        };
  return Object.fromEntries(LEVELS.map((level) => [level, at(level)]));
}
