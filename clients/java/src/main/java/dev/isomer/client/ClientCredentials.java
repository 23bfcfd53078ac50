package dev.isomer.client;

import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import io.grpc.Status;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * Tokens by OAuth 2.0's client-credentials grant (RFC 6749, 4.4). The address of the token endpoint
 * is given, or is found at the issuer (OpenID Connect Discovery).
 */
public final class ClientCredentials implements TokenSource {
  private static final int MOST_ANSWER_BYTES = 1 << 20;

  private final Map<String, String> form = new LinkedHashMap<>();
  private final String issuer;
  private HttpClient http = HttpClient.newHttpClient();
  private Duration timeout = Duration.ofSeconds(10);
  private String tokenUrl;

  private ClientCredentials(String issuer, String tokenUrl, String id, String secret) {
    String given = issuer == null ? tokenUrl : issuer;
    if (!confidential(given)) {
      throw IsomerException.invalid(
          "issuer",
          "a secret is sent there: write https://",
          "`" + given + "` is not an https address");
    }
    this.issuer = issuer;
    this.tokenUrl = tokenUrl;
    form.put("grant_type", "client_credentials");
    form.put("client_id", id);
    form.put("client_secret", secret);
  }

  /** Tokens of the issuer at an https address. */
  public static ClientCredentials ofIssuer(String issuer, String clientId, String clientSecret) {
    return new ClientCredentials(issuer, null, clientId, clientSecret);
  }

  /** Tokens of a token endpoint at an https address. */
  public static ClientCredentials ofTokenUrl(String url, String clientId, String clientSecret) {
    return new ClientCredentials(null, url, clientId, clientSecret);
  }

  /** Asks for a scope. */
  public ClientCredentials scope(String scope) {
    form.put("scope", scope);
    return this;
  }

  /** Asks for an audience. */
  public ClientCredentials audience(String audience) {
    form.put("audience", audience);
    return this;
  }

  /** Asks by this HTTP client, which may trust an authority of your own. */
  public ClientCredentials http(HttpClient client) {
    this.http = client;
    return this;
  }

  /** Time for a request to the identity provider; 10 s unless it is given. */
  public ClientCredentials timeout(Duration most) {
    this.timeout = most;
    return this;
  }

  @Override
  public synchronized Token token() {
    if (tokenUrl == null) {
      String base = issuer.endsWith("/") ? issuer.substring(0, issuer.length() - 1) : issuer;
      JsonObject found = json(base + "/.well-known/openid-configuration", null);
      String url = found.has("token_endpoint") ? found.get("token_endpoint").getAsString() : "";
      if (!confidential(url)) {
        throw noToken("the issuer names no token endpoint with https", null);
      }
      tokenUrl = url;
    }
    JsonObject answer =
        json(
            tokenUrl,
            form.entrySet().stream()
                .map(one -> one.getKey() + "=" + encoded(one.getValue()))
                .collect(Collectors.joining("&")));
    String value = answer.has("access_token") ? answer.get("access_token").getAsString() : "";
    if (value.isEmpty()) {
      throw noToken("the identity provider gave no token", null);
    }
    if (!answer.has("expires_in")) {
      return Token.of(value);
    }
    return Token.of(value, Instant.now().plusSeconds(answer.get("expires_in").getAsLong()));
  }

  private JsonObject json(String url, String body) {
    HttpRequest.Builder request =
        HttpRequest.newBuilder(URI.create(url)).timeout(timeout).header("accept", "application/json");
    if (body != null) {
      request
          .header("content-type", "application/x-www-form-urlencoded")
          .POST(HttpRequest.BodyPublishers.ofString(body));
    }
    try {
      HttpResponse<InputStream> answer =
          http.send(request.build(), HttpResponse.BodyHandlers.ofInputStream());
      try (InputStream content = answer.body()) {
        if (answer.statusCode() / 100 != 2) {
          throw noToken("the identity provider answered " + answer.statusCode(), null);
        }
        byte[] text = content.readNBytes(MOST_ANSWER_BYTES);
        return JsonParser.parseString(new String(text, StandardCharsets.UTF_8)).getAsJsonObject();
      }
    } catch (JsonParseException | IllegalStateException error) {
      throw noToken("the identity provider's answer is no JSON", error);
    } catch (IOException error) {
      String text = "the identity provider cannot be asked: " + error.getMessage();
      throw new IsomerException.Facts(Status.Code.UNAVAILABLE, text)
          .field("token")
          .cause(error)
          .exception();
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw IsomerException.cancelled("", 1);
    }
  }

  private static String encoded(String text) {
    return URLEncoder.encode(text, StandardCharsets.UTF_8);
  }

  private static IsomerException noToken(String text, Throwable cause) {
    return new IsomerException.Facts(Status.Code.UNAUTHENTICATED, text)
        .field("token")
        .hint("check client id, secret and issuer")
        .cause(cause)
        .exception();
  }

  private static boolean confidential(String address) {
    try {
      URI parts = URI.create(address);
      return "https".equals(parts.getScheme()) && parts.getHost() != null
          || "http".equals(parts.getScheme()) && Address.onThisMachine(parts.getHost());
    } catch (IllegalArgumentException error) {
      return false;
    }
  }

  /** Without the secret, for logs. */
  @Override
  public String toString() {
    return "ClientCredentials(" + form.get("client_id") + ")";
  }
}
