// The fourth link of the chain (load.sh): a server that asks the database, and does some work on the rows.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.util.concurrent.Executors;

public class Chain {
	static String url;

	static final ThreadLocal<Connection> CONNECTION = ThreadLocal.withInitial(() -> {
		try {
			return DriverManager.getConnection(url, "bench", "");
		} catch (Exception e) {
			throw new RuntimeException(e);
		}
	});

	static long checksum(String text) {
		long h = 1125899906842597L;
		for (int round = 0; round < 20; round++) {
			for (int i = 0; i < text.length(); i++) {
				h = 31 * h + text.charAt(i);
			}
		}
		return h;
	}

	static String query(int first) throws Exception {
		StringBuilder b = new StringBuilder();
		try (PreparedStatement s = CONNECTION.get().prepareStatement(
				"select a.aid, a.abalance, b.bbalance, repeat(md5(a.aid::text), 4) from pgbench_accounts a"
				+ " join pgbench_branches b using (bid) where a.aid between ? and ? order by md5(a.aid::text)")) {
			s.setInt(1, first);
			s.setInt(2, first + 200);
			ResultSet rows = s.executeQuery();
			while (rows.next()) {
				String text = rows.getString(4);
				b.append("account ").append(rows.getInt(1)).append(" has ").append(rows.getInt(2)).append(" check ")
					.append(checksum(text)).append(" of ").append(text).append('\n');
			}
		}
		return b.toString();
	}

	static void handle(HttpExchange x) {
		try (x) {
			byte[] body = query(Math.floorMod(x.getRequestURI().hashCode(), 400000)).getBytes(StandardCharsets.UTF_8);
			x.sendResponseHeaders(200, body.length);
			x.getResponseBody().write(body);
		} catch (Exception e) {
			e.printStackTrace();
		}
	}

	public static void main(String[] args) throws Exception {
		url = args[1];
		HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(args[0])), 0);
		server.createContext("/", Chain::handle);
		server.setExecutor(Executors.newFixedThreadPool(4));
		server.start();
	}
}
