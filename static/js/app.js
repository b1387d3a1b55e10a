// What every page has. Each module does nothing where its marks are absent.
import "./time.js";
import "./own-zone.js";
import "./copy.js";
import "./toasts.js";
import "./confirm.js";
import "./palette.js";
import "./live.js";
import "./shell.js";
import "./rows.js";
