// xterm.js writes <style> elements and style attributes; the page's policy allows neither.
// What it writes goes where the policy has no objection: adopted style sheets and the CSSOM.
// In place of a <style> it gets a <template>: even an empty <style> would be a breach.
const adopt = (element) => {
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  let text = "";
  Object.defineProperty(element, "textContent", {
    get: () => text,
    set: (css) => {
      text = String(css);
      sheet.replaceSync(text);
    },
  });
  const remove = element.remove.bind(element);
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== sheet);
    remove();
  };
  return element;
};

const create = document.createElement.bind(document);
document.createElement = (name, options) => {
  if (String(name).toLowerCase() === "style") return adopt(create("template"));
  const element = create(name, options);
  if (String(name).toLowerCase() === "span") {
    const set = element.setAttribute.bind(element);
    element.setAttribute = (key, value) => {
      if (key === "style") element.style.cssText = value;
      else set(key, value);
    };
  }
  return element;
};
