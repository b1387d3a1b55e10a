// Starts Swagger UI. Its requests carry the session, so they need the CSRF token too.
const root = document.getElementById("swagger-ui");

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
