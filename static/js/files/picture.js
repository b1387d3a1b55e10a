// A picture drawn on a canvas: the page's policy lets no picture of another origin in, and pixels
// can do nothing.
import { make, text } from "./dom.js";

const MOST = 1600; // pixels of the longer side

export function picture(blob, label) {
  const canvas = make("canvas", { class: "browser-picture", role: "img", "aria-label": label });
  const place = make("div", { class: "browser-picture-place" }, canvas);
  createImageBitmap(blob)
    .then((bitmap) => {
      const scale = Math.min(1, MOST / Math.max(bitmap.width, bitmap.height));
      canvas.width = Math.max(1, Math.round(bitmap.width * scale));
      canvas.height = Math.max(1, Math.round(bitmap.height * scale));
      canvas.getContext("2d").drawImage(bitmap, 0, 0, canvas.width, canvas.height);
      canvas.dataset.drawn = `${bitmap.width}x${bitmap.height}`;
      bitmap.close();
    })
    .catch(() => place.replaceChildren(make("p", { class: "text-secondary" }, text("broken_image"))));
  return place;
}
