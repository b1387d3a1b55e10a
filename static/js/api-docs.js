// Starts Swagger UI. Its requests carry the session, so they need the CSRF token too.
const root = document.getElementById("swagger-ui");
const page = document.documentElement;

// Its theme follows the page's, also when that is changed in the bar.
const follow = () => page.classList.toggle("dark-mode", page.dataset.bsTheme === "dark");
follow();
new MutationObserver(follow).observe(page, { attributeFilter: ["data-bs-theme"] });

window.SwaggerUIBundle({
  url: root.dataset.schema,
  domNode: root,
  deepLinking: true,
  docExpansion: "list",
  presets: [window.SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
  validatorUrl: null,
  requestInterceptor: (request) => {
    request.headers["X-CSRFToken"] = root.dataset.csrf;
    return request;
  },
});
