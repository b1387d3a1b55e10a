// Copying within a volume: how far it is, and an end to it.
import { count, size, text } from "./dom.js";
import { lines, post } from "./gate.js";
import { work } from "./works.js";

// How much there is, is counted beside it: the copying waits for no count.
function counted(paths, signal) {
  const found = { bytes: 0 };
  lines(post("count", { paths }, { signal }))
    .then(({ done }) => {
      if (done.complete) found.bytes = done.bytes;
    })
    .catch(() => {});
  return found;
}

// Resolves with what was done, null when it was cancelled.
export async function copy(asked) {
  const mine = work("copy", text("copy_bar"));
  mine.say(text("copy_begins"));
  const all = counted(asked.paths, mine.signal);
  const tell = ({ files, bytes }) => {
    const said = { files: count("files", files), size: size(bytes), all: size(all.bytes) };
    mine.say(text(all.bytes ? "copy_of" : "copy_progress", said));
    if (all.bytes) mine.far(bytes, all.bytes);
  };
  try {
    return (await lines(post("copy", asked, { signal: mine.signal }), ({ progress }) => progress && tell(progress))).done;
  } catch (error) {
    if (error.name !== "AbortError") throw error;
    return null;
  } finally {
    mine.over();
  }
}
