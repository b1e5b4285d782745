// Java: com.sun.net.httpserver with a thread per request from a pool; port, then NAME=NUMBER.
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.*;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;

public class Server {
    static volatile long sink;

    public static void main(String[] words) throws Exception {
        Map<String, Integer> options = new HashMap<>();
        for (int at = 1; at < words.length; at++) {
            String[] pair = words[at].split("=");
            options.put(pair[0], Integer.parseInt(pair[1]));
        }
        int work = options.getOrDefault("work", 0), sleep = options.getOrDefault("sleep", 0);
        int fail = options.getOrDefault("fail", 0), crash = options.getOrDefault("crash", -1);
        int hang = options.getOrDefault("hang", Integer.MAX_VALUE);
        AtomicInteger count = new AtomicInteger();
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 128);
        server.setExecutor(Executors.newFixedThreadPool(16));
        server.createContext("/", exchange -> {
            int number = count.incrementAndGet();
            if (number == crash) {
                System.err.println("java.lang.Error: out of cheese");
                Runtime.getRuntime().halt(3);
            }
            try {
                if (number >= hang) Thread.sleep(1 << 30);
                if (sleep > 0) Thread.sleep(sleep);
            } catch (InterruptedException e) {
                return;
            }
            long sum = number;
            for (int unit = 0; unit < work * 300; unit++) sum = sum * 31 ^ unit;
            sink = sum;
            byte[] reply = "hello".getBytes();
            exchange.sendResponseHeaders(number % 100 < fail ? 500 : 200, reply.length);
            exchange.getResponseBody().write(reply);
            exchange.close();
        });
        server.start();
    }
}
