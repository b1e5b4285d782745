// The stock market in Java: a virtual thread for each connection, a lock around the book.
//
//	java Market.java PORT BOOK
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.StringTokenizer;
import java.util.concurrent.locks.ReentrantLock;

final class Market {
    private static final String WRONG = "error: expected the id of a stock and an amount\n";

    private static final class Stock {
        long left;
        final long price;

        Stock(long left, long price) {
            this.left = left;
            this.price = price;
        }
    }

    // A monitor would hold the thread below while a virtual thread waits for it.
    private final ReentrantLock lock = new ReentrantLock();
    private final Map<Long, Stock> book = new LinkedHashMap<>();

    // Reads a book: one line for each stock, its id, how many are left, and the price.
    private Market(Path path) throws IOException {
        for (String line : Files.readAllLines(path)) {
            StringTokenizer words = new StringTokenizer(line);
            if (words.countTokens() == 3) {
                long id = Long.parseLong(words.nextToken());
                long left = Long.parseLong(words.nextToken());
                book.put(id, new Stock(left, Long.parseLong(words.nextToken())));
            }
        }
    }

    // Appends the reply to one request; false after the last one.
    private boolean answer(String request, StringBuilder out) {
        StringTokenizer words = new StringTokenizer(request);
        String word = words.hasMoreTokens() ? words.nextToken() : "";
        switch (word) {
            case "":
                out.append('\n');
                return true;
            case "show":
                lock.lock();
                try {
                    book.forEach((id, it) -> out.append(id).append(' ').append(it.left).append(' ')
                            .append(it.price).append('\n'));
                } finally {
                    lock.unlock();
                }
                out.append('\n');
                return true;
            case "buy":
            case "sell":
                out.append(trade(word.equals("sell"), words));
                return true;
            case "exit":
                return false;
            default:
                out.append("error: expected show, buy, sell or exit\n");
                return true;
        }
    }

    private String trade(boolean sells, StringTokenizer words) {
        if (words.countTokens() != 2) return WRONG;
        Stock stock;
        int amount;
        try {
            stock = book.get(Long.parseLong(words.nextToken()));
            amount = Integer.parseInt(words.nextToken());
        } catch (NumberFormatException wrong) {
            return WRONG;
        }
        if (stock == null || amount < 1) return WRONG;
        lock.lock();
        try {
            if (!sells && stock.left < amount) return "Not enough left stocks\n";
            stock.left += sells ? amount : -amount;
        } finally {
            lock.unlock();
        }
        return sells ? "[sell] success\n" : "[buy] success\n";
    }

    // Answers one client. Replies to requests that came together leave together.
    private void serve(Socket socket) {
        try (Socket peer = socket) {
            peer.setTcpNoDelay(true);
            InputStream in = peer.getInputStream();
            byte[] buffer = new byte[4096];
            StringBuilder out = new StringBuilder();
            int have = 0;
            int got;
            while ((got = in.read(buffer, have, buffer.length - have)) > 0) {
                have += got;
                int from = 0;
                boolean more = true;
                for (int at = have - got; at < have && more; at++) {
                    if (buffer[at] != '\n') continue;
                    more = answer(new String(buffer, from, at - from, StandardCharsets.ISO_8859_1), out);
                    from = at + 1;
                }
                peer.getOutputStream().write(out.toString().getBytes(StandardCharsets.ISO_8859_1));
                out.setLength(0);
                if (!more || have - from == buffer.length) return;
                System.arraycopy(buffer, from, buffer, 0, have - from);
                have -= from;
            }
        } catch (IOException gone) {
            // The client has left.
        }
    }

    public static void main(String[] args) throws IOException {
        if (args.length != 2) {
            System.err.println("market: expected PORT BOOK");
            System.exit(2);
        }
        Market market = new Market(Path.of(args[1]));
        InetAddress host = InetAddress.getByName("127.0.0.1");
        try (ServerSocket door = new ServerSocket(Integer.parseInt(args[0]), 4096, host)) {
            // A signal to stop is no fault.
            Thread end = new Thread(() -> Runtime.getRuntime().halt(0));
            Runtime.getRuntime().addShutdownHook(end);
            while (true) {
                Socket peer = door.accept();
                Thread.startVirtualThread(() -> market.serve(peer));
            }
        }
    }
}
