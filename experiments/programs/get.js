// k6 asks for one page as often as it can: `k6 run -e URL=http://127.0.0.1:8080/ get.js`.
import http from "k6/http";

export default function () {
  http.get(__ENV.URL);
}
