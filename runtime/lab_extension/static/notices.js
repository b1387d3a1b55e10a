// JupyterLab (4 and later) loads this as a prebuilt extension: it needs no build and none of Lab's
// packages, only its commands. It asks the portal what is to be told of this workspace, shows that
// with a countdown, says beside it since when nobody touched the page, and saves open documents before the end. Whoever may press a button is the
// portal's to decide. Where a portal or a Lab does not know it, nothing is shown.
(() => {
  "use strict";
  const NAME = "@berth/notices";
  const PRESS = "berth:press-notice";
  const EVERY_MS = 15_000; // a portal is asked
  const SAVE_MS = 45_000; // before the end, and once more at the very end
  const LAST_SAVE_MS = 8_000;

  const config = () => {
    try {
      return JSON.parse(document.getElementById("jupyter-config-data").textContent);
    } catch {
      return {};
    }
  };

  const clock = (ms) => {
    const seconds = Math.max(0, Math.ceil(ms / 1000));
    return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
  };

  function activate(app) {
    const { hubHost = "", hubPrefix = "", hubServerUser, hubUser, hubServerName, token } = config();
    if (!hubPrefix || !hubServerName || !token) return;
    const owner = encodeURIComponent(hubServerUser || hubUser);
    const url = `${hubHost}${hubPrefix}api/notices/${owner}/${encodeURIComponent(hubServerName)}`;
    let touched = Date.now(); // Lab's own questions are no use of it: this is
    for (const act of ["keydown", "input", "pointerdown", "pointermove", "wheel"]) {
      const note = () => { touched = Date.now(); };
      window.addEventListener(act, note, { capture: true, passive: true });
    }
    const shown = new Map(); // id → {toast, notice, saved, text}

    const ask = async (body) => {
      const idle = Math.max(0, Math.floor((Date.now() - touched) / 1000));
      const answer = await fetch(`${url}?idle=${idle}`, {
        method: body ? "POST" : "GET",
        headers: { Authorization: `token ${token}`, "Content-Type": "application/json" },
        body: body && JSON.stringify(body),
      });
      const told = await answer.json();
      if (!answer.ok) throw new Error(told.message);
      show(told.notices);
    };

    const save = (one, ms) => {
      const due = ms <= LAST_SAVE_MS ? 2 : ms <= SAVE_MS ? 1 : 0;
      if (!one.notice.saves || due <= one.saved) return;
      one.saved = due;
      app.commands.execute("docmanager:save-all").catch(() => {});
    };

    const tick = () => {
      for (const one of shown.values()) {
        if (one.notice.until == null) continue;
        const ms = one.notice.until * 1000 - Date.now();
        const message = `${one.notice.text} ${clock(ms)}`;
        save(one, ms);
        if (message === one.message || !one.toast) continue;
        one.message = message;
        app.commands.execute("apputils:update-notification", { ...as(one), id: one.toast, message });
      }
    };

    const as = (one) => ({
      type: one.notice.level,
      autoClose: false,
      options: { autoClose: false },
      actions: one.notice.acts.map((act) => ({
        label: act.label,
        displayType: "accent",
        commandId: PRESS,
        args: { id: one.notice.id, act: act.act },
      })),
    });

    const show = (notices) => {
      const now = new Set(notices.map((notice) => notice.id));
      for (const [id, one] of shown) {
        if (now.has(id)) continue;
        shown.delete(id);
        if (one.toast) app.commands.execute("apputils:dismiss-notification", { id: one.toast });
      }
      for (const notice of notices) {
        const one = shown.get(notice.id) || { saved: 0 };
        if (one.notice && one.notice.until !== notice.until) one.saved = 0;
        one.notice = notice;
        if (shown.has(notice.id)) continue;
        shown.set(notice.id, one);
        const { actions, options, type } = as(one);
        app.commands
          .execute("apputils:notify", { message: notice.text, type, options: { ...options, actions } })
          .then((toast) => { one.toast = toast; tick(); });
      }
    };

    app.commands.addCommand(PRESS, {
      label: "Berth",
      execute: (press) =>
        ask(press).catch((error) =>
          app.commands.execute("apputils:notify", { message: error.message, type: "error" }),
        ),
    });
    const look = () => ask().catch(() => {});
    app.restored.then(look);
    setInterval(look, EVERY_MS);
    setInterval(tick, 1000);
  }

  // --- run as job ---------------------------------------------------------------------------
  function offerJobs(app) {
    const { hubHost = "", hubServerUser, hubUser, hubServerName } = config();
    if (!hubServerName || (hubServerUser && hubServerUser !== hubUser)) return;
    const japanese = navigator.language.startsWith("ja");
    const label = japanese ? "ジョブとして実行" : "Run as job";
    const caption = japanese
      ? "同じパッケージ・ファイル・認証情報で、最後まで自動で実行します"
      : "It runs to its end by itself, with the same packages, files and credentials";

    // Opened at the press, as browsers allow; filled once what is on the screen is saved.
    const run = async (path, save) => {
      const tab = window.open("about:blank");
      const url = `${hubHost}/jobs/from/${encodeURIComponent(hubServerName)}/?path=${encodeURIComponent(path)}`;
      if (save) await app.commands.execute("docmanager:save").catch(() => {});
      if (!tab) return location.assign(url);
      tab.opener = null;
      tab.location.href = url;
    };
    const open = () => app.shell.currentWidget?.context?.path;
    const chosen = () => {
      const browser = [...app.shell.widgets("left")].find((one) => one.id === "filebrowser");
      return browser ? [...browser.selectedItems()][0]?.path : undefined;
    };
    const may = (path) => /\.(ipynb|py)$/.test(path ?? "");
    app.commands.addCommand("berth:run-notebook", {
      label,
      caption,
      isEnabled: () => may(open()),
      execute: () => run(open(), true),
    });
    app.commands.addCommand("berth:run-file", {
      label,
      caption,
      isVisible: () => may(chosen()),
      execute: () => run(chosen(), false),
    });
  }

  const plugins = [
    { id: `${NAME}:plugin`, autoStart: true, activate },
    { id: `${NAME}:run`, autoStart: true, activate: offerJobs },
  ];
  window._JUPYTERLAB = window._JUPYTERLAB || {};
  window._JUPYTERLAB[NAME] = {
    init: () => {},
    get: async () => () => ({ __esModule: true, default: plugins }),
  };
})();
